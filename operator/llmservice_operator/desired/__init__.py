"""What should be there: spec and budget to child objects. Pure."""
