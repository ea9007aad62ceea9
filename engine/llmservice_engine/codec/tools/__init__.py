"""How models write tool calls: one file a format, and :mod:`registry` that names them."""
