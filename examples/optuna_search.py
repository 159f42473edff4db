"""Optuna asks, gputrain trains: bad trials are pruned while they run, and a killed search goes on.

Each trial's job is drawn from the study's name and the trial's number, so a kill between the submit and the
note in the study is harmless: the same submit finds the job.
"""

import tempfile
import time

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import gputrain

trainer = gputrain.Trainer()
optuna.logging.set_verbosity(optuna.logging.WARNING)
storage = JournalStorage(JournalFileBackend(f"{tempfile.mkdtemp()}/search.log"))  # a path that you keep
pruner = optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=5)
study = optuna.create_study(storage=storage, study_name="lr", load_if_exists=True, pruner=pruner)


def start(trial):
    """The job of a trial, made once."""
    lr = trial.suggest_float("lr", 1e-3, 1.0, log=True)
    return trainer.submit(
        "examples/train_session.py", args=["--steps", "20", "--lr", str(lr)],
        idempotency_key=f"{study.study_name} {trial.number}",
    )  # fmt: skip


def follow(trial, job):
    """Tell the study how a job goes; end it where the study says so."""
    told = 0
    while not job.refresh().state.is_terminal:
        for step, loss in job.metrics().series("loss")[told:]:
            trial.report(loss, int(step))
            told += 1
        if trial.should_prune():
            job.cancel()
        time.sleep(0.2)
    if job.state == "succeeded":
        study.tell(trial, job.metrics().last["loss"])
    else:
        study.tell(trial, state=TrialState.PRUNED if job.state == "cancelled" else TrialState.FAIL)


for _ in range(3):
    trials = [study.ask() for _ in range(2)]
    jobs = [start(trial) for trial in trials]
    for trial, job in zip(trials, jobs):
        follow(trial, job)
print(f"best of {len(study.trials)}: lr={study.best_params['lr']:.4f}, loss={study.best_value:.4f}")
