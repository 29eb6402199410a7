"""The fastest parser there is, driven by a bare `asyncio.Protocol`: the limit."""
