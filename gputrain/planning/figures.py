"""A quota in one clause. Pure."""

from gputrain.quota import Reading


def figures(reading: Reading) -> str:
    """Its limit, what is in use, what the job needs, and who told it when.

    >>> figures(Reading(metric="NVIDIA_L4_GPUS", where="us-central1", need=4, limit=8, usage=5))
    'NVIDIA_L4_GPUS in us-central1 is 8 with 5 in use, the job needs 4'
    """
    limit = "unknown" if reading.limit is None else f"{reading.limit:g}"
    used = "" if reading.usage is None else f" with {reading.usage:g} in use"
    told = [reading.source.value] if reading.source else []
    told += [f"{reading.read_at:%H:%M} UTC"] if reading.read_at else []
    by = f" ({', '.join(told)})" if told else ""
    metric = reading.metric.rpartition("/")[2]
    return f"{metric} in {reading.where} is {limit}{used}, the job needs {reading.need:g}{by}"
