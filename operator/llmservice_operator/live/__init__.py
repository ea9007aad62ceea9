"""The only code that talks to the cluster: what was seen, what is written, who leads."""
