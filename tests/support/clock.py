"""Waiting in the emulator's time."""


def jumping(cloud):
    """A ``sleep`` that ends when the next thing happens, while an operation of Compute Engine is under way.

    A client that polls the operation so looks once after each event, not twice a second. It sleeps as long as
    asked where nothing is under way: a client that waits to try again must not wake at the end of its job.
    """

    def sleep(seconds):
        with cloud.world.lock:
            clock = cloud.clock
            due = clock.next_event()
            if due is not None and any(not one.done for one in cloud.compute.operations.values()):
                seconds = max(seconds, due - clock.now())
            clock.advance(seconds)

    return sleep
