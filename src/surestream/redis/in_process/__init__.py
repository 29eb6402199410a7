"""A Redis server inside this process, for tests and demonstrations (rules 8.1, 8.2).

``fakeredis`` models the data and the commands; this room gives it the same kind of connection as a
real server's, the one clock, and the answers of Redis 7.0 where it differs
(``tests/live/test_in_process_parity.py`` runs the same commands against both).
"""

from surestream.redis.in_process.server import InProcessRedis

__all__ = ["InProcessRedis"]
