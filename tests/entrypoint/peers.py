"""A stub of a training script without torch: ranks that exchange a byte, step by step, through rank 0.

When a rank goes, rank 0 sees its connection close, fails of it and takes the others along: the symptoms
that hide a cause. Usage: peers.py ENDING RANK STEP
"""

import os
import signal
import socket
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
FAMILY = socket.AF_INET6 if ":" in ADDRESS[0] else socket.AF_INET


def connect():
    if RANK == 0:
        server = socket.socket(FAMILY)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(ADDRESS)
        server.listen(WORLD)
        return [server.accept()[0] for _ in range(WORLD - 1)]
    while True:
        try:
            return [socket.create_connection(ADDRESS)]
        except ConnectionRefusedError:  # noqa: PERF203
            time.sleep(0.01)


def exchange(peers):
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        if not peer.recv(1):
            raise RuntimeError(f"[pair.cc:553] Connection closed by peer [{ADDRESS[0]}]:{ADDRESS[1]}")


def end(ending):
    if ending == "raise":
        raise ValueError(f"bad batch on rank {RANK}")
    if ending == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "exit":
        os._exit(7)
    if ending == "leave":
        sys.exit(0)


def main():
    ending, who, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    peers = connect()
    for number in range(step + 30):
        exchange(peers)
        if number == step and who == RANK:
            end(ending)
    print(f"rank {RANK} finished")


if __name__ == "__main__":
    main()
