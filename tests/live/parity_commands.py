"""What is asked of the real server and of the in-process one, which have to answer the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["SCENARIOS", "Command", "wild_commands"]

Command = tuple[str | int, ...]


def lines(text: str) -> list[Command]:
    """One command a line, its arguments apart by blanks."""
    return [tuple(line.split()) for line in text.strip().splitlines() if line.strip()]


def entries(count: int) -> str:
    return "\n".join(f"XADD s {number}-1 f {number}" for number in range(1, count + 1)) + "\n"


def script(body: str, *keys_and_args: str, keys: int = 1) -> Command:
    return ("EVAL", body, keys, *keys_and_args)


SCENARIOS: dict[str, list[Command]] = {
    "adding": lines(
        """
        XADD s 1-1 a 1
        XADD s 1-1 a 1
        XADD s 0-0 a 1
        XADD s 1-* a 1
        XADD s 1 a 1
        XADD s 5 a 1 b 2
        XADD s 5 a
        XADD s x a 1
        XADD s
        XADD t NOMKSTREAM * a 1
        XLEN s
        XRANGE s - +
        XRANGE s (1-1 + COUNT 1
        XREVRANGE s + - COUNT 2
        XRANGE nope - +
        XADD s MAXLEN 2 9-1 a 1
        XADD s MAXLEN ~ 100 9-2 a 1
        XRANGE s - +
        XADD s MINID 9-2 9-3 b 1
        XRANGE s - +
        XTRIM s MAXLEN 1
        XDEL s 9-3 9-3 1-1
        XDEL nope 1-1
        XLEN s
        EXISTS s
        TYPE s
        XINFO STREAM s
        XADD s 9-3 a 1
        XADD s 18446744073709551615-18446744073709551615 a 1
        XADD s * a 1
        """
    ),
    "another type": [
        *lines(
            """
            SET k v
            XADD k * a 1
            XLEN k
            XRANGE k - +
            XREAD STREAMS k 0
            XREADGROUP GROUP g c STREAMS k >
            XACK k g 1-1
            XPENDING k g
            XPENDING k g - + 10
            XCLAIM k g c 0 1-1
            XAUTOCLAIM k g c 0 0
            XGROUP CREATE k g 0
            XGROUP DESTROY k g
            XGROUP DELCONSUMER k g c
            XINFO STREAM k
            XINFO GROUPS k
            XINFO CONSUMERS k g
            XDEL k 1-1
            XTRIM k MAXLEN 1
            ZADD k 1 a
            ZRANGEBYSCORE k 0 1
            ZREM k a
            LPUSH k a
            TYPE k
            """
        ),
        script("return redis.call('XADD', KEYS[1], '*', 'a', 'b')", "k"),
        script("return redis.pcall('XADD', KEYS[1], '*', 'a', 'b')", "k"),
        script("local r = redis.pcall('XADD', KEYS[1], '*', 'a', 'b') return r.err", "k"),
        script("redis.call('SET', KEYS[2], 1) redis.call('XLEN', KEYS[1])", "k", "side", keys=2),
        ("GET", "side"),
    ],
    "nothing there": lines(
        """
        XLEN n
        XREADGROUP GROUP g c STREAMS n >
        XREADGROUP GROUP g c STREAMS n 0
        XACK n g 1-1
        XPENDING n g
        XPENDING n g - + 10
        XPENDING n g IDLE 5 - + 10
        XCLAIM n g c 0 1-1
        XAUTOCLAIM n g c 0 0
        XGROUP CREATE n g 0
        XGROUP DESTROY n g
        XGROUP DELCONSUMER n g c
        XGROUP SETID n g 0
        XINFO STREAM n
        XINFO GROUPS n
        XINFO CONSUMERS n g
        TYPE n
        DEL n
        ZREM n a
        ZRANGEBYSCORE n 0 1
        EVALSHA 0123456789012345678901234567890123456789 0
        XADD s 1-1 a 1
        XREADGROUP GROUP g c STREAMS s >
        XREADGROUP GROUP g c STREAMS s n > >
        XACK s g 1-1
        XPENDING s g
        XPENDING s g - + 10
        XCLAIM s g c 0 1-1
        XAUTOCLAIM s g c 0 0
        XGROUP DESTROY s g
        XGROUP DELCONSUMER s g c
        XGROUP SETID s g 0
        XINFO GROUPS s
        XINFO CONSUMERS s g
        """
    ),
    "wrong words": lines(
        """
        XADD s 1-1 a 1
        XGROUP CREATE s g 0
        XREADGROUP GROUP g c STREAMS s
        XREADGROUP GROUP g c COUNT x STREAMS s >
        XREADGROUP
        XREADGROUP GROUP g c STREAMS s $
        XREADGROUP GROUP g c STREAMS s bad
        XREADGROUP GROUP g c BLOCK -1 STREAMS s >
        XREADGROUP GROUP g c BLOCK x STREAMS s >
        XREADGROUP GROUP g c FOO STREAMS s >
        XREAD COUNT 1 STREAMS s >
        XPENDING s
        XPENDING s g -
        XPENDING s g - + x
        XPENDING s g IDLE x - + 1
        XPENDING s g IDLE 1
        XPENDING s g bad + 1
        XPENDING s g - + -1
        XPENDING s g - + 0
        XCLAIM s g c x 1-1
        XCLAIM s g c 0
        XCLAIM s g c 0 bad
        XCLAIM s g c 0 1-1 FOO
        XCLAIM s g c 0 1-1 IDLE
        XCLAIM s g c 0 1-1 IDLE x
        XCLAIM s g c 0 1-1 RETRYCOUNT x
        XCLAIM s g c -5 1-1
        XAUTOCLAIM s g c 0
        XAUTOCLAIM s g c 0 bad
        XAUTOCLAIM s g c 0 0 COUNT 0
        XAUTOCLAIM s g c 0 0 COUNT x
        XAUTOCLAIM s g c 0 0 FOO
        XACK s g
        XACK s g bad
        XACK s
        XGROUP CREATE s g
        XGROUP CREATE s g2 bad
        XGROUP FOO s g
        XINFO FOO s
        XNOPE a b
        ZADD z x a
        ZRANGEBYSCORE z x 1
        PEXPIREAT z x
        EVAL x
        """
    ),
    "groups": lines(
        """
        XGROUP CREATE s g 0 MKSTREAM
        XGROUP CREATE s g 0
        TYPE s
        XLEN s
        XINFO STREAM s
        XINFO GROUPS s
        XGROUP CREATE s b $
        XADD s 1-1 a 1
        XADD s 2-1 a 2
        XADD s 3-1 a 3
        XGROUP CREATE s a 1-1
        XINFO GROUPS s
        XREADGROUP GROUP a c1 COUNT 1 STREAMS s >
        XREADGROUP GROUP a c2 STREAMS s >
        XREADGROUP GROUP a c2 STREAMS s >
        XREADGROUP GROUP b c0 COUNT 10 NOACK STREAMS s >
        XINFO GROUPS s
        XINFO CONSUMERS s a
        XINFO CONSUMERS s b
        XGROUP CREATECONSUMER s a c9
        XGROUP CREATECONSUMER s a c9
        XGROUP DELCONSUMER s a c1
        XGROUP DELCONSUMER s a c1
        XINFO CONSUMERS s a
        XPENDING s a
        XGROUP DESTROY s b
        XGROUP DESTROY s b
        XINFO GROUPS s
        XGROUP SETID s g 2-1
        XREADGROUP GROUP g c STREAMS s >
        XGROUP SETID s g $
        XREADGROUP GROUP g c STREAMS s >
        XGROUP SETID s g 0
        XREADGROUP GROUP g c STREAMS s >
        XPENDING s g - + 10
        XINFO STREAM s
        DEL s
        XREADGROUP GROUP g c STREAMS s >
        XGROUP CREATE s g 0 MKSTREAM
        XADD s 1-1 a 1
        XDEL s 1-1
        XREADGROUP GROUP g c STREAMS s >
        XINFO GROUPS s
        """
    ),
    "pending": lines(
        entries(8)
        + """
        XGROUP CREATE s g 0
        XPENDING s g
        XREADGROUP GROUP g zed COUNT 3 STREAMS s >
        XREADGROUP GROUP g amy COUNT 3 STREAMS s >
        XPENDING s g
        XPENDING s g - + 10
        XPENDING s g - + 2
        XPENDING s g (1-1 + 2
        XPENDING s g 2 4 10
        XPENDING s g - + 10 amy
        XPENDING s g - + 10 nobody
        XPENDING s g IDLE 100000 - + 10
        XPENDING s g IDLE 0 - + 10 zed
        XCLAIM s g zed 0 1-1 IDLE 200000 JUSTID
        XPENDING s g - + 10
        XPENDING s g IDLE 100000 - + 10
        XPENDING s g IDLE 100000 - + 10 amy
        XREADGROUP GROUP g zed STREAMS s 0
        XPENDING s g - + 10
        XREADGROUP GROUP g zed COUNT 1 STREAMS s 1-1
        XREADGROUP GROUP g zed COUNT 1 STREAMS s 9-1
        XDEL s 2-1 4-1
        XREADGROUP GROUP g zed STREAMS s 0
        XPENDING s g - + 10
        XACK s g 1-1 1-1 9-9
        XACK s g 2-1
        XPENDING s g
        XINFO CONSUMERS s g
        XACK s g 3-1 4-1 5-1 6-1
        XPENDING s g
        XPENDING s g - + 10
        XINFO CONSUMERS s g
        XINFO GROUPS s
        XREADGROUP GROUP g zed STREAMS s 0
        XREADGROUP GROUP g new STREAMS s 0
        XREADGROUP GROUP g zed BLOCK 1 STREAMS s 0
        """
    ),
    "claiming": lines(
        entries(8)
        + """
        XGROUP CREATE s g 0
        XREADGROUP GROUP g a COUNT 6 STREAMS s >
        XCLAIM s g b 100000 1-1
        XCLAIM s g b 0 2-1 1-1
        XPENDING s g - + 10
        XCLAIM s g b 0 1-1 JUSTID
        XPENDING s g - + 10
        XCLAIM s g b 0 1-1 RETRYCOUNT 7
        XCLAIM s g b 0 1-1 RETRYCOUNT 3 JUSTID
        XPENDING s g - + 10
        XCLAIM s g c 0 2-1 IDLE 50000 RETRYCOUNT 0
        XPENDING s g - + 10
        XCLAIM s g c 40000 2-1 1-1 IDLE 90000
        XPENDING s g - + 10
        XCLAIM s g c 0 8-1
        XCLAIM s g c 0 8-1 FORCE
        XCLAIM s g c 0 7-1 FORCE JUSTID
        XCLAIM s g c 0 77-1 FORCE
        XPENDING s g - + 10
        XDEL s 3-1
        XCLAIM s g c 1000000 3-1
        XCLAIM s g c 0 3-1
        XPENDING s g - + 10
        XCLAIM s g c 0 4-1 LASTID 8-1
        XINFO GROUPS s
        XCLAIM s g c 0 4-1 TIME 1000
        XCLAIM s g c 0 5-1 TIME 99999999999999
        XPENDING s g
        XINFO CONSUMERS s g
        XCLAIM s g c 0 5-1 RETRYCOUNT -1
        XPENDING s g - + 10
        XCLAIM s g a 0 5-1 4-1 1-1 IDLE 0 JUSTID
        """
    ),
    "claiming a range": lines(
        entries(30)
        + """
        XGROUP CREATE s g 0
        XREADGROUP GROUP g a COUNT 30 STREAMS s >
        XAUTOCLAIM s g b 100000 0 COUNT 2
        XAUTOCLAIM s g b 0 0 COUNT 2
        XAUTOCLAIM s g b 0 3-1 COUNT 2 JUSTID
        XPENDING s g - + 6
        XDEL s 6-1 7-1
        XAUTOCLAIM s g b 0 5-1 COUNT 3
        XAUTOCLAIM s g b 99999 0-0 COUNT 1
        XAUTOCLAIM s g b 99999 (3-1 COUNT 1
        XCLAIM s g a 0 25-1 IDLE 100000 JUSTID
        XAUTOCLAIM s g b 99999 0-0 COUNT 1
        XAUTOCLAIM s g b 99999 11-1 COUNT 1
        XAUTOCLAIM s g b 99999 - COUNT 1
        XAUTOCLAIM s g b 99999 21-1 COUNT 1
        XAUTOCLAIM s g b 0 20-1
        XPENDING s g
        XINFO CONSUMERS s g
        XAUTOCLAIM s g b 0 40-1
        """
    ),
    "sorted sets": lines(
        """
        ZADD z 3 c 1 a 2 b
        ZADD z 2 b2
        ZADD z NX 5 a
        ZADD z XX CH 9 a
        ZADD z 1.5 x
        ZADD z 1e3 y
        ZADD z 1700000000123 t
        ZRANGEBYSCORE z -inf +inf WITHSCORES
        ZRANGEBYSCORE z 0 (3
        ZRANGEBYSCORE z -inf 1700000000123 LIMIT 1 2
        ZSCORE z t
        ZSCORE z nope
        ZCARD z
        ZREM z a nope
        ZREMRANGEBYSCORE z -inf 2
        ZRANGE z 0 0 WITHSCORES
        ZCOUNT z 0 1000
        ZPOPMIN z
        PEXPIREAT z 99999999999999
        PERSIST z
        PEXPIREAT z 1
        EXISTS z
        ZADD z GT 3 a
        ZADD z GT 1 a
        ZINCRBY z 2.5 a
        ZADD z inf a
        ZRANGEBYSCORE z -inf +inf WITHSCORES
        """
    ),
    "plain values": lines(
        """
        SET a 1
        SET a 2 NX
        SET a 3 XX
        GET a
        DEL a b
        GET a
        INCR n
        EXISTS n n
        EXPIRE n 100
        TYPE n
        RPUSH l a b c
        LRANGE l 0 -1
        LMOVE l l2 LEFT RIGHT
        LREM l 0 c
        LLEN l
        HSET h a 1
        PING
        PING hi
        CLIENT GETNAME
        PUBLISH ch m
        FLUSHALL
        DBSIZE
        """
    ),
    "scripts": [
        *lines("XADD s 1-1 a 1\nXADD s 2-1 b 2\nXGROUP CREATE s g 0\n"),
        script(
            "return redis.call('XREADGROUP','GROUP','g','c','COUNT',1,'STREAMS',KEYS[1],'>')", "s"
        ),
        script(
            "local r = redis.call('XREADGROUP','GROUP','g','c','STREAMS',KEYS[1],'>') "
            "return {#r, type(r[1]), r[1][1], r[1][2][1][1], r[1][2][1][2][1]}",
            "s",
        ),
        script(
            "local r = redis.call('XREADGROUP','GROUP','g','c','STREAMS',KEYS[1],'>') "
            "return {type(r), tostring(r)}",
            "s",
        ),
        script("return redis.call('XREADGROUP','GROUP','x','c','STREAMS',KEYS[1],'>')", "s"),
        script("return redis.call('XPENDING',KEYS[1],'g')", "s"),
        script(
            "local r = redis.call('XPENDING',KEYS[1],'g','-','+',10) "
            "return {#r, r[1][1], r[1][2], type(r[1][3]), r[1][4]}",
            "s",
        ),
        script("return #redis.call('XPENDING',KEYS[1],'g','9-1','9-1',1,'c')", "s"),
        script("return redis.call('XCLAIM',KEYS[1],'g','d',0,'1-1','JUSTID')", "s"),
        script("return redis.call('XAUTOCLAIM',KEYS[1],'g','d',0,'0')[2]", "s"),
        script("return redis.call('XRANGE',KEYS[1],'1-1','1-1')", "s"),
        script("return redis.call('XACK',KEYS[1],'g','1-1','2-1')", "s"),
        script("return redis.call('XADD',KEYS[1],'5-1','a',ARGV[1])", "s", "\x00\xff"),
        script("return redis.call('XGROUP','CREATE',KEYS[1],'g','0')", "s"),
        script("return redis.pcall('XGROUP','CREATE',KEYS[1],'g','0')", "s"),
        script("return redis.call('ZADD',KEYS[1],ARGV[1],'m')", "z", "1700000000123"),
        script("return redis.call('ZSCORE',KEYS[1],'m')", "z"),
        script("return redis.call('ZADD',KEYS[1],1700000000124,'n')", "z"),
        script(
            "return redis.call('ZRANGEBYSCORE',KEYS[1],'-inf',ARGV[1],'WITHSCORES','LIMIT',0,10)",
            "z",
            "1700000000123",
        ),
        script("local t = redis.call('TIME') return {#t, type(t[1]), #t[1]}", keys=0),
        script("return {1, 2.7, 'x', true, false, 3}", keys=0),
        script("return {1, nil, 3}", keys=0),
        *(
            script(f"return {value}", keys=0)
            for value in (
                "3.99",
                "-3.99",
                "nil",
                "false",
                "true",
                "{}",
                "{ok='fine'}",
                "{err='MY bad'}",
                "redis.error_reply('MY bad')",
                "redis.status_reply('fine')",
                "redis.call('GET', 'nope')",
                "tostring(1700000000123)",
                "string.format('%.0f', 1700000000123)",
                "1700000000123 .. ''",
                "1700000000123",
                "tonumber('1700000000123') + 1",
                "math.floor(7 / 2)",
                "('x'):rep(10):sub(2, 4)",
                "{unpack({1, 2, 3})}",
                'cjson.decode(\'{"a":[1,2,"x"]}\').a',
                "redis.call('ECHO', 12345678901234567)",
                "undeclared",
                "redis.call('NOPE')",
                "redis.call('EVAL', 'return 1', 0)",
                "redis.call('SET', 'a', true)",
            )
        ),
        script("undeclared = 1", keys=0),
        script("no lua at all", keys=0),
        script("error('boom')", keys=0),
        script("return {KEYS[1], ARGV[1], #KEYS, #ARGV}", "a", "b", "c"),
    ],
}


def wild_commands(seed: int, count: int) -> Iterator[Command]:
    """Stream commands at random, with few names, so that they meet."""
    pick = random.Random(seed)
    added = 1

    def entry() -> str:
        return f"{pick.randint(1, 30)}-{pick.randint(0, 1)}"

    def ids() -> list[str]:
        return [entry() for _ in range(pick.randint(1, 4))]

    def maybe(chance: float, *words: str | int) -> tuple[str | int, ...]:
        return words if pick.random() < chance else ()

    for _ in range(count):
        key = pick.choice(("s", "s", "s", "t"))
        group, consumer = pick.choice("gh"), pick.choice("abc")
        at = (key, group)
        idle = pick.choice((0, 50_000, 150_000))
        some = ("COUNT", pick.randint(1, 5))
        choices: list[tuple[int, Command]] = [
            (6, ("XADD", key, f"{added // 2}-{added % 2}", "f", added)),
            (8, ("XREADGROUP", "GROUP", group, consumer, *maybe(0.8, *some), "STREAMS", key, ">")),
            (2, ("XREADGROUP", "GROUP", group, consumer, "STREAMS", "s", "t", ">", ">")),
            (3, ("XREADGROUP", "GROUP", group, consumer, *some, "STREAMS", key, "0")),
            (1, ("XREADGROUP", "GROUP", group, consumer, "BLOCK", 1, "STREAMS", key, ">")),
            (4, ("XACK", *at, *ids())),
            (
                6,
                (
                    *("XCLAIM", *at, consumer, idle, *ids()),
                    *maybe(0.5, "IDLE", pick.choice((0, 100_000, 200_000))),
                    *maybe(0.3, "RETRYCOUNT", pick.randint(0, 9)),
                    *maybe(0.2, "FORCE"),
                    *maybe(0.5, "JUSTID"),
                ),
            ),
            (
                5,
                (
                    *("XAUTOCLAIM", *at, consumer, idle, pick.choice(("0", entry()))),
                    *maybe(0.8, *some),
                    *maybe(0.4, "JUSTID"),
                ),
            ),
            (4, ("XPENDING", *at, *maybe(0.5, "IDLE", idle), "-", entry(), pick.randint(1, 10))),
            (2, ("XPENDING", *at, "-", "+", 10, consumer)),
            (2, ("XPENDING", *at)),
            (2, ("XDEL", key, *ids())),
            (1, ("XTRIM", key, "MAXLEN", pick.randint(0, 20))),
            (2, ("XGROUP", "CREATE", *at, pick.choice(("0", "$", entry())), "MKSTREAM")),
            (1, ("XGROUP", "DESTROY", *at)),
            (1, ("XGROUP", "DELCONSUMER", *at, consumer)),
            (1, ("XINFO", "GROUPS", key)),
            (2, ("XINFO", "CONSUMERS", *at)),
            (2, ("XRANGE", key, pick.choice(("-", f"({entry()}")), "+", *some)),
            (1, ("XLEN", key)),
            (1, ("DEL", key) if pick.random() < 0.3 else ("EXISTS", key)),
        ]
        weights = [weight for weight, _ in choices]
        command = pick.choices([command for _, command in choices], weights)[0]
        added += command[0] == "XADD"
        yield command
