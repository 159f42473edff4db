"""A command that finds its peers in TF_CONFIG, as TensorFlow's MultiWorkerMirroredStrategy does."""

import json
import os

config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
print(f"I am {task['type']} {task['index']}", flush=True)
for role, addresses in sorted(config["cluster"].items()):
    print(f"{role}: {', '.join(addresses)}", flush=True)
