"""The routes by who uses them: devices, everybody, administrators, two servers. One table for all."""

from . import admin, device, pair, public

__all__ = ["OPERATIONS"]

OPERATIONS = (*public.OPERATIONS, *device.OPERATIONS, *admin.OPERATIONS, *pair.OPERATIONS)
