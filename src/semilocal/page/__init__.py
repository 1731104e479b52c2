"""The page of a server, and the same map as a file: what is public, drawn. Static modules are shipped as they are."""
