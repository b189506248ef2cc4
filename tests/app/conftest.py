"""Stores and an opener for tests of pages."""

from collections.abc import Iterator
from datetime import datetime

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app import runtime
from app.config import Config
from app.pages import facts
from sql.store import Store
from tests.app import data
from tests.app.opening import FOLDER, NOW, Open


@pytest.fixture(scope="module")
def filled() -> Store:
    store = Store.open()
    data.fill(store, NOW)
    return store


@pytest.fixture(scope="module")
def empty() -> Store:
    return Store.open()


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens a page of the product on a store: `opened(store, "gpus", gpu="GPU-1")`."""

    def open_page(
        store: Store, path: str = "", *, now: datetime = NOW, simulated: bool = False, **parameters: str
    ) -> AppTest:
        facts._answer.clear()
        runtime.set_current(
            runtime.Runtime(store=store, settings=Config(), simulated=simulated, clock=lambda: now)
        )
        # The script lies elsewhere: a folder `pages` beside it would be taken for pages of Streamlit's own.
        script = f"import runpy; runpy.run_path({str(FOLDER / 'main.py')!r}, run_name='__main__')"
        test = AppTest.from_string(script, default_timeout=30)
        test._page_hash = calc_hash(path) if path else ""
        for name, value in parameters.items():
            test.query_params[name.rstrip("_")] = value
        test.run()
        assert not test.exception, test.exception[0].message
        return test

    yield open_page
    runtime.set_current(None)
