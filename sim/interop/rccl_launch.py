"""How an rccl-tests run was started, as far as its log says: devices, processes, settings, transports."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_DEVICE = re.compile(
    r"#\s*Rank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+(\d{1,12})\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)"
)
_THREADS = re.compile(r"#\s*nThread\s+(\d{1,6})\s+nGpus\s+(\d{1,6})")
_TEST = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|gather|scatter)_perf\b"
)
_STARTING = re.compile(r"#\s*Collective test starting:\s*(\w+?)_perf\b")
_PROCESSES = re.compile(r"(?:^|[\s(])-np?[\s=]+(\d{1,7})\b|--ntasks[= ](\d{1,7})\b")
_LAUNCHERS = re.compile(r"\b(?:mpirun|mpiexec|srun|prun|orterun)\b|-np\s+\d")
_GPUS = re.compile(r"_perf\b.*?\s-g\s+(\d{1,4})\b")
_SETTING = re.compile(
    r"\b((?:NCCL|RCCL)_[A-Z0-9_]{2,60})(?:\s*=\s*|\s+set by environment to\s+)([^\s,;'\"]{1,80})"
)
_TRANSPORT = re.compile(r"\bvia\s+((?:P2P|SHM|NET)(?:/[\w/]+)?)|Using network (\w+)")

NAMES = {"alltoall": "all_to_all", "alltoallv": "all_to_all", "sendrecv": "send"}
"""Names of tests that differ from the collective's name here."""

_MOST_DEVICES = 2**20


@dataclass(frozen=True)
class Device:
    """One line of the device list."""

    rank: int
    process: int
    host: str
    gpu: str


@dataclass(frozen=True)
class Launch:
    """``processes`` and ``gpus_per_process`` are None where the log does not say. ``settings`` are NCCL_* variables."""

    devices: tuple[Device, ...] = ()
    test: str | None = None
    processes: int | None = None
    gpus_per_process: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    transports: tuple[str, ...] = ()

    @property
    def stated_ranks(self) -> int | None:
        """Ranks that the command line asks for."""
        return None if self.processes is None else self.processes * (self.gpus_per_process or 1)

    @property
    def hosts(self) -> int:
        """Distinct hosts of the device list; 0 without one."""
        return len({device.host for device in self.devices})

    @property
    def single_process(self) -> bool:
        """Whether one process drives several GPUs."""
        if self.gpus_per_process is not None and self.gpus_per_process > 1:
            return True
        return len(self.devices) > 1 and len({(d.host, d.process) for d in self.devices}) == 1

    @property
    def gpus(self) -> tuple[str, ...]:
        """Distinct GPU names of the device list."""
        return tuple(dict.fromkeys(device.gpu for device in self.devices if device.gpu))


@dataclass
class LaunchReader:
    """Collects a ``Launch`` from the lines around the tables."""

    devices: dict[int, Device] = field(default_factory=dict)
    test: str | None = None
    processes: int | None = None
    gpus_per_process: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    transports: dict[str, None] = field(default_factory=dict)

    def take(self, text: str) -> None:
        device, threads = _DEVICE.match(text), _THREADS.match(text)
        if device:
            rank = int(device[1])
            if rank < _MOST_DEVICES:
                self.devices[rank] = Device(rank, int(device[2]), device[3], device[4].strip())
        elif threads:
            self.gpus_per_process = int(threads[1]) * int(threads[2])
        else:
            self._words(text)

    def launch(self) -> Launch:
        devices = tuple(self.devices[rank] for rank in sorted(self.devices))
        return Launch(
            devices,
            self.test,
            self.processes,
            self.gpus_per_process,
            dict(self.settings),
            tuple(self.transports),
        )

    def next_run(self) -> LaunchReader:
        """For the next table of the same file: settings and the launcher hold on, what the test prints does not."""
        return LaunchReader(
            processes=self.processes, settings=dict(self.settings), transports=dict(self.transports)
        )

    def _words(self, text: str) -> None:
        test = _STARTING.match(text) or _TEST.search(text)
        if test:
            self.test = NAMES.get(test[1], test[1])
        if _LAUNCHERS.search(text):
            asked = _PROCESSES.search(text)
            if asked:
                self.processes = int(asked[1] or asked[2])
        gpus = _GPUS.search(text)
        if gpus and self.gpus_per_process is None:
            self.gpus_per_process = int(gpus[1])
        for name, value in _SETTING.findall(text):
            if len(self.settings) < 200:
                self.settings[name] = value
        for via, network in _TRANSPORT.findall(text):
            if len(self.transports) < 50:
                self.transports[via or f"NET/{network}"] = None
