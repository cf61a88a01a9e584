"""What the meetings share."""

import logging

import pytest


@pytest.fixture(scope="module")
def cluster():
    """Two workers in this process: what is sent to them is pickled as on any cluster."""
    pytest.importorskip("dask")  # tests/distributed may be found under the other package's name
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
