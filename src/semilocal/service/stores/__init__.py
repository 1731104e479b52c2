"""Storage of the service: SQLite and PostgreSQL behind one contract."""
