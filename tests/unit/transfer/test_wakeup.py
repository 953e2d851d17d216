import threading

from engine.transfer import Wakeup

TIMEOUT = 10.0


def test_notify_ends_a_wait():
    wakeup, event, result = Wakeup(), threading.Event(), []
    waiter = threading.Thread(target=lambda: result.append(wakeup.wait_for(event.is_set, TIMEOUT)))
    waiter.start()
    event.set()
    wakeup.notify()
    waiter.join(TIMEOUT)
    assert result == [True]


def test_every_waiter_is_woken_and_evaluates_its_own_predicate():
    wakeup, state, done = Wakeup(), {"number": 0}, []
    waiters = [
        threading.Thread(target=lambda n=n: done.append((n, wakeup.wait_for(lambda: state["number"] >= n, TIMEOUT))))
        for n in range(1, 5)
    ]
    for waiter in waiters:
        waiter.start()
    for number in range(1, 5):
        state["number"] = number
        wakeup.notify()
        waiters[number - 1].join(TIMEOUT)
    assert done == [(1, True), (2, True), (3, True), (4, True)]


def test_a_timeout_returns_the_result_of_the_predicate():
    assert Wakeup().wait_for(lambda: False, 0.01) is False
    assert Wakeup().wait_for(lambda: True, 0) is True


def test_a_change_without_notification_is_noticed_while_polling():
    checks = iter([False] * 5 + [True])
    assert Wakeup().wait_for(lambda: next(checks), poll=TIMEOUT)


def test_polling_ends_at_the_timeout():
    assert Wakeup().wait_for(lambda: False, 0.01, poll=TIMEOUT) is False


def test_a_notification_is_noticed_after_polling():
    wakeup, checked, changed = Wakeup(), threading.Event(), threading.Event()

    def predicate():
        checked.set()
        return changed.is_set()

    waiter = threading.Thread(target=wakeup.wait_for, args=(predicate, TIMEOUT), kwargs={"poll": 1e-9})
    waiter.start()
    assert checked.wait(TIMEOUT)
    changed.set()
    wakeup.notify()
    waiter.join(TIMEOUT / 2)
    assert not waiter.is_alive()


def test_the_predicate_is_evaluated_under_the_lock():
    wakeup, acquired = Wakeup(), []

    def locked():
        other = threading.Thread(target=lambda: acquired.append(wakeup.condition.acquire(blocking=False)))
        other.start()
        other.join(TIMEOUT)
        return True

    assert wakeup.wait_for(locked, TIMEOUT)
    assert acquired == [False]


def test_a_change_between_check_and_request_for_news_is_not_missed():
    """The change happens at the worst moment: after the first check, when the peer does not ring for it."""
    wakeup, changed = Wakeup(), threading.Event()

    class WakeupSource:
        def request_notification(self):
            changed.set()

    wakeup.attach(WakeupSource())
    waiter = threading.Thread(target=wakeup.wait_for, args=(changed.is_set,), daemon=True)
    waiter.start()
    waiter.join(TIMEOUT)
    assert not waiter.is_alive()


def test_news_is_requested_again_before_every_sleep():
    """A ring for another reason clears the request."""
    wakeup, requests = Wakeup(), []

    class WakeupSource:
        def request_notification(self):
            requests.append(True)
            threading.Thread(target=wakeup.notify).start()

    source = WakeupSource()
    wakeup.attach(source)
    assert wakeup.wait_for(lambda: len(requests) >= 3, TIMEOUT)
    wakeup.detach(source)
    wakeup.wait_for(lambda: False, 0.01)
    assert len(requests) == 3
