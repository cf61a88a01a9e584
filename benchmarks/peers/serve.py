"""The loop of a worker: reads requests, one JSON object a line, and answers with one line each.

A worker gives a `load(threads)` that imports its library and returns `build`; `build(arrays)` makes
the model of an npz file and returns a function that evaluates bound and all gradients and returns
the bound. Request: {"model": path, "seconds": s}. Answer: bound, least wall and processor seconds
of the evaluations that s seconds hold (three at least) after a first one, and the memory that
building and the first evaluation added (MB). A processor that was idle takes a while to reach its
speed, so all libraries get the same time, not the same number of evaluations.
"""

import json
import sys
import time

import numpy as np


def memory(key):
    """A field of this process's status in MB (Linux; else nan)."""
    try:
        with open("/proc/self/status") as lines:
            return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(key))
    except OSError:
        return float("nan")


def reset_peak():
    """Let the peak of memory start afresh from what is used now."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def clock(work):
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


def serve(load):
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    build, models = load(int(sys.argv[1])), {}
    for line in sys.stdin:
        request = json.loads(line)
        path, answer = request["model"], {}
        if path not in models:
            models.clear()  # one at a time, or their memory would add up
            reset_peak()
            before = memory("VmRSS")
            with np.load(path) as arrays:
                models[path] = build(dict(arrays))
            answer["bound"] = float(models[path]())
            answer["memory"] = memory("VmHWM") - before
        times, end = [], time.perf_counter() + request["seconds"]
        while len(times) < 3 or time.perf_counter() < end:
            times.append(clock(models[path]))
        answer["wall"], answer["processor"] = np.min(times, axis=0).tolist()
        print(json.dumps(answer), file=answers, flush=True)
