"""Runs many commands of the baremetal program in one process.

Each line of standard input is a JSON list with a command's arguments; the answer is a
line with its exit status and what it printed. A process for each command would take
longer to start than all that it does. The commands are the program's own: App is what
its main function runs.
"""
import contextlib
import importlib.metadata
import io
import json
import logging
import sys
import warnings

from ironicclient import shell

warnings.simplefilter("ignore")


def commands():
    points = importlib.metadata.entry_points(group="openstack.baremetal.v1")
    return sorted({p.name[len("baremetal_"):].replace("_", " ") for p in points})


def run(argv):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["baremetal"] + argv
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = shell.main(argv)
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 1
    logging.getLogger().handlers.clear()
    return {"status": int(status or 0), "stdout": out.getvalue(), "stderr": err.getvalue()}


print(json.dumps(commands()), flush=True)
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
