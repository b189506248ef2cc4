-- purpose: how far a Prometheus was read goes with the rows it led to: the target has not been pulled since
-- parameters: before (UTC)
DELETE FROM pull_progress WHERE last_ts < $before
