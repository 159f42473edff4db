"""Where a person sees more of a job that runs: its terminal and its curves."""

from gputrain import Trainer
from gputrain.lifecycle import State

BOARD = "projects/my-project/locations/us-central1/tensorboards/1"


def test_a_running_job_tells_its_terminal_and_its_curves(make, cloud, vertex, code):
    vertex.tensorboards[BOARD] = "Losses"
    trainer = Trainer(make(enable_web_access=True, tensorboard=BOARD))
    job = trainer.submit(f"{code}/train.py", gpu="L4:1")
    assert "https" not in job.refresh().detail
    while job.refresh().state is not State.RUNNING:
        cloud.clock.advance(2)
    word, terminal, board = job.refresh().detail.split("; ")
    assert word == "running"
    assert terminal.startswith("terminal of workerpool0-0: https://")
    number = terminal.partition("https://")[2].partition("-")[0]
    assert board == (
        "TensorBoard: https://us-central1.tensorboard.googleusercontent.com/experiment/"
        f"{BOARD.replace('/', '+')}+experiments+{number}"
    )
    while not job.refresh().state.is_terminal:
        cloud.clock.advance(5)
    assert "https" not in job.detail
