"""The collection service: campaigns over HTTP on SQLite or PostgreSQL. Needs ``pip install 'semilocal[service]'``."""
