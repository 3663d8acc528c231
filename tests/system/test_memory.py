"""How much memory is free: the machine's, or a container's."""

from metapl.system import memory


def test_a_container_has_no_more_memory_than_it_may(monkeypatch):
    texts = {
        "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 50 kB\nHugePages_Free:\n",
        "/sys/fs/cgroup/memory.max": "20480\n",
        "/sys/fs/cgroup/memory.current": "10240\n",
    }
    monkeypatch.setattr(memory, "_text", lambda path: texts.get(path, ""))
    assert memory.memory() == (20480, 10240)
    texts["/sys/fs/cgroup/memory.stat"] = "file 5000\ninactive_file 4000\n"  # files that can be given up
    assert memory.memory() == (20480, 14240)
    texts["/sys/fs/cgroup/memory.max"] = "max\n"
    assert memory.memory() == (102400, 51200)
    texts.clear()
    assert memory.memory() == (None, None)


def test_this_machine_has_memory():
    total, free = memory.memory()
    assert total is None or (free is not None and 0 < free <= total)
