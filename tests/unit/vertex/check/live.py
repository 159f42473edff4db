"""A script that ends once it may, for tests of real ranks behind the real wire."""

WAIT_FOR_GO = """
import os, signal, sys, time, urllib.error, urllib.request
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(75)))
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/my-bucket/o/go").read()
        break
    except urllib.error.HTTPError:
        time.sleep(0.1)
print("done", flush=True)
"""
