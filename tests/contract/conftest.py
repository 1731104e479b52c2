"""Databases for these tests."""

from support_service import database, postgres, store

__all__ = ["database", "postgres", "store"]
