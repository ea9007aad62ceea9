"""The resource: its types, its names, its conditions, and what is seen of it in the cluster."""
