"""The device: a vault that keeps its word across crashes, and an agent that follows a campaign over HTTP.

``import semilocal`` never pulls this package in; the agent needs the extra "service" (httpx).
"""
