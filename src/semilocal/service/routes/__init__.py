"""The routes by who uses them: devices, everybody, administrators, operators. One table for all (``spec/http.md``)."""

from . import admin, device, operation, public

__all__ = ["OPERATIONS"]

OPERATIONS = (*public.OPERATIONS, *device.OPERATIONS, *admin.OPERATIONS, *operation.OPERATIONS)
