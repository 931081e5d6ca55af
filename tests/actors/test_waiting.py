"""Who waited last is woken first, and nobody waits for ever."""

from __future__ import annotations

import threading

from actors.waiting import LastFirst


def test_who_came_last_is_woken_first() -> None:
    lock = threading.Lock()
    condition = LastFirst(lock)
    woken: list[int] = []
    waits = [threading.Event() for _ in range(3)]
    done = threading.Semaphore(0)

    def wait(number: int) -> None:
        with lock:
            waits[number].set()  # nobody has the lock before this one waits
            condition.wait()
            woken.append(number)
        done.release()

    threads = [threading.Thread(target=wait, args=(number,), daemon=True) for number in range(3)]
    for number, thread in enumerate(threads):
        thread.start()
        assert waits[number].wait(60)
        with lock:
            pass
    for _ in range(2):
        with lock:
            condition.notify()
        assert done.acquire(timeout=60)
    assert woken == [2, 1]
    with lock:
        condition.notify_all()
        condition.notify()
    assert done.acquire(timeout=60)
    assert woken == [2, 1, 0]
