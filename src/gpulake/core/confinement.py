"""Drop the privileges of this process for good: the query that it runs may be an attack.

Linux has what is used here: no_new_privs and capabilities always, Landlock since 5.13 where it is switched on, seccomp
through libseccomp where that is installed. What a system lacks is left out; `gpulake doctor` says which. Limits of
resources hold everywhere, but for that of memory, which other systems do not have.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import stat
from collections.abc import Iterable
from pathlib import Path

from gpulake.core.packaged import packaged_toml

IS_LINUX = os.uname().sysname == "Linux"
SECCOMP, LANDLOCK = "seccomp", "Landlock"
LEAST_BYTES = 64 * 2**20  # minimum for a query, even if the setting is lower
MOST_FILES = 512

_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2  # root reads lakes of other users
# linux/landlock.h; the numbers of its system calls are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
# Number of access rights in each version of Landlock, from the first; rights that are not granted are denied.
_RIGHTS = (0, 13, 14, 15, 15, 16)
# seccomp.h
_ALLOW, _DENY, _UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38  # EPERM, ENOSYS
_EQUAL, _MASKED_EQUAL = 4, 7
_ALL_THREADS = 4
_CLONE_THREAD, _MAP_SHARED = 0x10000, 0x01


class _Comparison(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


def available() -> dict[str, bool]:
    """The mechanisms of this system, besides resource limits."""
    return {SECCOMP: _seccomp() is not None, LANDLOCK: _landlock_version() > 0}


def drop_privileges(readable: Iterable[Path]) -> None:
    """Restrict reading to these folders. Call it before any thread starts: existing threads keep their rights."""
    if not IS_LINUX:
        return
    libc = _libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if version := _landlock_version():
        _restrict_files(libc, version, readable)
    kept = _CAP_DAC_READ_SEARCH if os.geteuid() == 0 else 0
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))


def limit_resources(memory_bytes: int, seconds: float, threads: int) -> None:
    """Limit memory and CPU time of the process, and forbid writing files and core dumps."""
    if IS_LINUX:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        resident, private = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmData"))
        _lower(resource.RLIMIT_DATA, private + max(memory_bytes - resident, LEAST_BYTES))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + seconds * threads) + 1)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, MOST_FILES)


def restrict_system_calls(output: int) -> bool:
    """Allow all threads only reads, memory, new threads and writes to one descriptor. False without seccomp."""
    library = _seccomp()
    if library is None:
        return False
    rules = ctypes.c_void_p(library.seccomp_init(_DENY))
    library.seccomp_attr_set(rules, _ALL_THREADS, 1)

    def allow(name: str, *conditions: _Comparison, action: int = _ALLOW) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        given = (_Comparison * len(conditions))(*conditions)
        library.seccomp_rule_add_array(rules, action, number, len(conditions), given)

    for name in packaged_toml("gpulake.core", "system_calls.toml")["calls"].split():
        allow(name)
    for name in ("write", "writev"):
        allow(name, _Comparison(0, _EQUAL, output, 0))
    changing = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    allow("open", _Comparison(1, _MASKED_EQUAL, changing, os.O_RDONLY))
    allow("openat", _Comparison(2, _MASKED_EQUAL, changing, os.O_RDONLY))
    # Shared memory is not counted by the limit.
    allow("mmap", _Comparison(3, _MASKED_EQUAL, _MAP_SHARED, 0))
    allow("clone", _Comparison(0, _MASKED_EQUAL, _CLONE_THREAD, _CLONE_THREAD))
    # A seccomp rule cannot read the flags of clone3, which are in memory; after ENOSYS the C library uses clone.
    allow("clone3", action=_UNKNOWN)
    allow("prlimit64", _Comparison(2, _EQUAL, 0, 0))
    allow("tgkill", _Comparison(0, _EQUAL, os.getpid(), 0))
    done = library.seccomp_load(rules)
    library.seccomp_release(rules)
    return bool(done == 0)


def _restrict_files(libc: ctypes.CDLL, version: int, readable: Iterable[Path]) -> None:
    rights = ctypes.c_uint64((1 << _RIGHTS[min(version, len(_RIGHTS) - 1)]) - 1)
    rules = libc.syscall(_CREATE_RULESET, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    if rules < 0:
        return
    for path in readable:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # does not exist: nothing to grant
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = _PathBeneath(_READ_FILE | (_READ_FOLDER if is_folder else 0), descriptor)
        libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(descriptor)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _lower(kind: int, most: int) -> None:
    """Never above the hard limit."""
    hard = resource.getrlimit(kind)[1]
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (least, least))


def _landlock_version() -> int:
    if not IS_LINUX:
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _seccomp() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    return library
