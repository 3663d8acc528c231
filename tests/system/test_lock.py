"""One process at a time; whoever is refused is told who is at work."""

import os
import socket
import subprocess
import sys

import pytest

from metapl.schema import ConfigError
from metapl.system.lock import FILE, held, holder, is_held, locked


def test_the_second_is_refused_with_the_first_ones_pid(tmp_path):
    with locked(tmp_path):
        words = f"process {os.getpid()} on {socket.gethostname()} is working"
        with pytest.raises(ConfigError, match=words), locked(tmp_path):
            pass
        assert (tmp_path / FILE).read_text().split()[0] == str(os.getpid())
    with locked(tmp_path):
        pass


def test_a_lock_of_a_dead_process_means_nothing(tmp_path):
    (tmp_path / FILE).write_text("999999999 nowhere\n")
    with locked(tmp_path):
        assert (tmp_path / FILE).read_text().split()[0] == str(os.getpid())


CHILD = """
import fcntl, os, sys, time
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0); file.write(f"{sys.argv[2]} {sys.argv[3]}\\n"); file.flush()
print("held", flush=True)
time.sleep(float(sys.argv[4]))
"""


def hold(folder, pid: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder / FILE), str(pid), socket.gethostname(), str(seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    return child


def test_children_of_a_killed_process_are_waited_for_and_no_others(tmp_path):
    with hold(tmp_path, 999999999, 0.3), locked(tmp_path):
        pass
    with hold(tmp_path, 1, 60) as child:
        with pytest.raises(ConfigError, match="process 1 on"), locked(tmp_path):
            pass
        child.kill()


def test_a_lock_of_a_processs_own_is_seen_while_it_is_held_and_then_deleted(tmp_path):
    path = tmp_path / "worker.lock"
    assert not is_held(path)
    with held(path):
        assert is_held(path)
    assert not path.exists()
    path.touch()
    assert not is_held(path)


def test_the_holder_is_the_process_that_the_file_names_while_it_holds_the_lock(tmp_path):
    with locked(tmp_path):
        assert holder(tmp_path / FILE) == os.getpid()
    assert holder(tmp_path / FILE) is None
    assert holder(tmp_path / "nowhere") is None


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written to"), locked(tmp_path / "nowhere"):
        pass
