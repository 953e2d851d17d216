import threading

from engine.transfer import Wakeup

PATIENCE = 10.0


def test_notify_ends_a_wait():
    wakeup, event, result = Wakeup(), threading.Event(), []
    waiter = threading.Thread(target=lambda: result.append(wakeup.wait_for(event.is_set, PATIENCE)))
    waiter.start()
    event.set()
    wakeup.notify()
    waiter.join(PATIENCE)
    assert result == [True]


def test_every_waiter_is_woken_and_each_judges_for_itself():
    wakeup, state, done = Wakeup(), {"number": 0}, []
    waiters = [
        threading.Thread(target=lambda n=n: done.append((n, wakeup.wait_for(lambda: state["number"] >= n, PATIENCE))))
        for n in range(1, 5)
    ]
    for waiter in waiters:
        waiter.start()
    for number in range(1, 5):
        state["number"] = number
        wakeup.notify()
        waiters[number - 1].join(PATIENCE)
    assert done == [(1, True), (2, True), (3, True), (4, True)]


def test_timeout_returns_what_the_predicate_says():
    assert Wakeup().wait_for(lambda: False, 0.01) is False
    assert Wakeup().wait_for(lambda: True, 0) is True


def test_predicate_holds_the_lock():
    wakeup, outside = Wakeup(), []

    def locked():
        thief = threading.Thread(target=lambda: outside.append(wakeup.condition.acquire(blocking=False)))
        thief.start()
        thief.join(PATIENCE)
        return True

    assert wakeup.wait_for(locked, PATIENCE)
    assert outside == [False]


def test_a_change_between_looking_and_asking_for_news_is_not_slept_through():
    """The change comes at the worst moment: after the first look, when nobody rings for it."""
    wakeup, changed = Wakeup(), threading.Event()

    class WakeupSource:
        def request_notification(self):
            changed.set()

    wakeup.attach(WakeupSource())
    waiter = threading.Thread(target=wakeup.wait_for, args=(changed.is_set,), daemon=True)
    waiter.start()
    waiter.join(PATIENCE)
    assert not waiter.is_alive()


def test_news_is_asked_for_again_before_every_sleep():
    """A bell that was rung for something else has forgotten that it was asked."""
    wakeup, asked = Wakeup(), []

    class WakeupSource:
        def request_notification(self):
            asked.append(True)
            threading.Thread(target=wakeup.notify).start()

    source = WakeupSource()
    wakeup.attach(source)
    assert wakeup.wait_for(lambda: len(asked) >= 3, PATIENCE)
    wakeup.detach(source)
    wakeup.wait_for(lambda: False, 0.01)
    assert len(asked) == 3
