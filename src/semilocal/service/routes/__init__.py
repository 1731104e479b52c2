"""The routes by who uses them: devices, everybody, administrators, operators, two servers. One table for all."""

from . import admin, device, operation, pair, public

__all__ = ["OPERATIONS"]

OPERATIONS = (*public.OPERATIONS, *device.OPERATIONS, *admin.OPERATIONS, *operation.OPERATIONS, *pair.OPERATIONS)
