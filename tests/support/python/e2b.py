"""
In the place of the Python package `e2b`, which cannot be installed where tests run: the few calls of the example in
docs/templates.md, as the requests that the package makes of them.
"""

import json
import os
import time
import urllib.request


def wait_for_port(port):
    return f'[ -n "$(ss -Htuln sport = :{port})" ]'


class Template:
    def __init__(self):
        self._plan = {"steps": [], "force": False}

    def from_template(self, name):
        self._plan["fromTemplate"] = name
        return self

    def set_workdir(self, path):
        return self._step("WORKDIR", path)

    def run_cmd(self, command):
        return self._step("RUN", command)

    def set_start_cmd(self, start, ready):
        self._plan.update(startCmd=start, readyCmd=ready)
        return self

    def _step(self, kind, *args):
        self._plan["steps"].append({"type": kind, "args": list(args), "force": False})
        return self

    @staticmethod
    def build(template, name, cpu_count, memory_mb):
        wanted = {"name": name, "cpuCount": cpu_count, "memoryMB": memory_mb}
        build = _call("POST", "/v3/templates", wanted)
        path = f"/templates/{build['templateID']}/builds/{build['buildID']}"
        _call("POST", f"/v2{path}", template._plan)
        status = "building"
        while status in ("building", "waiting"):
            time.sleep(0.2)
            status = _call("GET", f"{path}/status?logsOffset=0")["status"]
        if status != "ready":
            raise RuntimeError(f"the build is {status}")


def _call(method, path, body=None):
    headers = {"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["E2B_API_URL"] + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None
