"""What a service's addresses do to each other, checked before anything connects (rule 4.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from surestream.contract import DelayMeans, RetryMeans
from surestream.errors import DeclarationError
from surestream.runtime.terms import Mounted

__all__ = ["check_topology"]


def check_topology(mounts: Sequence[Mounted], warn: Callable[[str], None]) -> None:
    """Refuse what feeds itself, warn of what another subscription would catch.

    ``mounts`` are those of one broker. Raises ``DeclarationError``.
    """
    _one_family_a_name(mounts)
    for mount in mounts:
        _check_retry_to(mount, mounts, warn)
        _check_dead_letter(mount, mounts, warn)
        _check_quarantine(mount)
        _check_reply_to(mount, warn)
        _check_losses(mount, warn)
        _check_copies(mount, warn)
    _check_cycles(mounts)


def _one_family_a_name(mounts: Sequence[Mounted]) -> None:
    families: dict[str, tuple[str, str]] = {}
    for mount in mounts:
        for name, family, role in _names(mount):
            known = families.setdefault(name, (family, f"{mount.site} {role}"))
            if known[0] != family:
                raise DeclarationError(
                    f"{name!r} is used as a {known[0]} and as a {family}",
                    why=f"one name is one structure (rule 4.4): {known[1]} as a {known[0]}, "
                    f"here it is a {family}",
                    write="another name for one of the two",
                    where=mount.site,
                )


def _names(mount: Mounted) -> list[tuple[str, str, str]]:
    source, family = mount.source, mount.source.family
    names = [(source.name, family, "reads it")]
    names += [(name, kind, "uses it") for name, kind in source.structures.items()]
    if mount.terms.dead_letter is not None:
        names.append((mount.terms.dead_letter, family, "declares it as dead_letter"))
    if mount.quarantine is not None:
        names.append((mount.quarantine, family, "declares it as quarantine"))
    if isinstance(mount.retry_to, str):
        names.append((mount.retry_to, family, "declares it as retry_to"))
    if isinstance(mount.reply_to, str):
        names.append((mount.reply_to, family, "declares it as reply_to"))
    return names


def _check_retry_to(mount: Mounted, mounts: Sequence[Mounted], warn: Callable[[str], None]) -> None:
    abilities = mount.abilities
    copies = abilities.capped_retry is RetryMeans.COPY
    if mount.retry_to is None:
        if abilities.address is None and copies:
            raise DeclarationError(
                f"{mount.source!r} without retry_to",
                why="it reads many addresses and names none that a copy could go to (rule 4.2)",
                write='include(…, retry_to="an.address") or a function of the delivery',
                where=mount.site,
            )
        return
    if not copies:
        raise DeclarationError(
            f"retry_to={mount.retry_to!r} on {mount.source!r}",
            why="this source makes no copies: the broker hands the same message out again "
            "(rule 4.2)",
            write="include(…) without retry_to",
            where=mount.site,
        )
    if abilities.delay is DelayMeans.PARKED:
        raise DeclarationError(
            f"retry_to={mount.retry_to!r} on {mount.source!r}",
            why="a parked delay comes back to the source itself, so its retries would go two "
            "ways (rule 6.5)",
            write="include(…) without retry_to, or the source without its delay set",
            where=mount.site,
        )
    if callable(mount.retry_to):
        return
    if not mount.source.reads(mount.retry_to):
        warn(
            f"{mount.site}: retry_to={mount.retry_to!r} is not read by {mount.name} itself: "
            "retries leave this subscription"
        )
    for other in _others_reading(mount.retry_to, mount, mounts):
        warn(f"{mount.site}: copies to {mount.retry_to!r} are also read by {other.site}")


def _check_dead_letter(
    mount: Mounted, mounts: Sequence[Mounted], warn: Callable[[str], None]
) -> None:
    dead = mount.terms.dead_letter
    if dead is None:
        return
    if mount.source.reads(dead):
        raise DeclarationError(
            f"dead_letter={dead!r}",
            why=f"the subscription itself reads it ({mount.name}), so dead letters would go "
            "round for ever (rule 4.6)",
            write=f'dead_letter="{mount.source.name}.dlq", or any address it does not read',
            where=mount.site,
        )
    if not mount.source.keeps_unread and not any(other.source.reads(dead) for other in mounts):
        warn(f"{mount.site}: nobody reads dead_letter={dead!r}, and nothing keeps it: it is gone")
    for other in _others_reading(dead, mount, mounts):
        if other.source.name != dead:
            warn(
                f"{mount.site}: dead letters to {dead!r} are caught by the wildcard of "
                f"{other.name} ({other.site})"
            )


def _check_quarantine(mount: Mounted) -> None:
    if mount.quarantine is not None and mount.source.reads(mount.quarantine):
        raise DeclarationError(
            f"quarantine={mount.quarantine!r}",
            why=f"the subscription itself reads it ({mount.name}), so what cannot be decoded would "
            "go round for ever (rule 2.6)",
            write=f'quarantine="{mount.source.name}.undecodable"',
            where=mount.site,
        )


def _check_reply_to(mount: Mounted, warn: Callable[[str], None]) -> None:
    if isinstance(mount.reply_to, str) and mount.source.reads(mount.reply_to):
        warn(
            f"{mount.site}: reply_to={mount.reply_to!r} is read by {mount.name} itself: a handler "
            "that always replies never comes to an end"
        )


def _others_reading(address: str, mount: Mounted, mounts: Sequence[Mounted]) -> list[Mounted]:
    return [
        other
        for other in mounts
        if other is not mount
        and other.source.family == mount.source.family
        and other.source.rivals != mount.source.rivals
        and other.source.reads(address)
    ]


def _check_cycles(mounts: Sequence[Mounted]) -> None:
    for start in mounts:
        path = [start]
        seen = {id(start)}
        _follow(path, seen, mounts)


def _follow(path: list[Mounted], seen: set[int], mounts: Sequence[Mounted]) -> None:
    dead = path[-1].terms.dead_letter
    if dead is None:
        return
    for reader in mounts:
        if reader.source.family != path[-1].source.family or not reader.source.reads(dead):
            continue
        if reader is path[0] or _same_source(reader, path[0]):
            ring = " → ".join(f"{step.name}" for step in [*path, path[0]])
            raise DeclarationError(
                f"dead_letter={dead!r}",
                why=f"dead letters go in a circle: {ring} (rule 4.6)",
                write="a last address that no subscription with a dead_letter reads",
                where=path[-1].site,
            )
        if id(reader) not in seen:
            seen.add(id(reader))
            _follow([*path, reader], seen, mounts)


def _same_source(one: Mounted, other: Mounted) -> bool:
    return one.source.family == other.source.family and one.source.name == other.source.name


def _check_losses(mount: Mounted, warn: Callable[[str], None]) -> None:
    abilities = mount.abilities
    declared = mount.terms.max_attempts is not None or mount.terms.dead_letter is not None
    if abilities.retry is RetryMeans.NOTHING and not declared:
        warn(
            f"{mount.site}: {mount.name} cannot give a message again: without max_attempts a "
            "retry() loses it (rule 5.7)"
        )
    if abilities.delay is DelayMeans.TIMER and abilities.survives_kill:
        warn(f"{mount.site}: a delay of {mount.name} waits in memory only; a kill loses it")


def _check_copies(mount: Mounted, warn: Callable[[str], None]) -> None:
    abilities, terms = mount.abilities, mount.terms
    if abilities.competes or abilities.settles or abilities.capped_retry is not RetryMeans.COPY:
        return
    if terms.max_attempts == 1 or (terms.max_attempts is None and terms.dead_letter is not None):
        return  # it never makes one
    warn(
        f"{mount.site}: every replica of the service gets what {mount.name} reads, its copies "
        "too: with several replicas retries multiply"
    )
