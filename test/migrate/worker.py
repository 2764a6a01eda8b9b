"""A worker that takes locks with redis-py's Lock. It does what worker.go does.

    worker.py worker ORDER
"""

import json
import random
import signal
import sys
import threading

import redis

order = json.loads(sys.argv[2])
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())


def address(text):
    host, port = text.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port), decode_responses=True)


locks, referee = address(order["locks"]), address(order["referee"])


def visit(worker):
    key = random.choice(order["keys"])
    lock = locks.lock(key, timeout=order["ttl"] / 1000, sleep=order["retry"] / 1000, blocking_timeout=1)
    if not lock.acquire():
        return
    enter = referee.pipeline(transaction=False)
    enter.sadd("inside:" + key, worker)
    enter.smembers("inside:" + key)
    enter.get("counter:" + key)
    _, inside, counter = enter.execute()
    if len(inside) != 1:
        referee.rpush("faults", f"{key}: inside are {' and '.join(inside)}")
    leave = referee.pipeline()
    leave.set("counter:" + key, int(counter or 0) + 1)
    leave.srem("inside:" + key, worker)
    leave.hincrby("grants", order["kind"], 1)
    leave.hincrby("visitors", order["process"], 1)
    leave.execute()
    lock.release()


def work(worker):
    while not ended.is_set():
        try:
            visit(worker)
        except Exception as fault:
            referee.rpush("faults", f"{worker}: {fault!r}")
            return


threads = [threading.Thread(target=work, args=(f"{order['process']}/{n}",)) for n in range(order["workers"])]
for thread in threads:
    thread.start()
ended.wait()
for thread in threads:
    thread.join()
