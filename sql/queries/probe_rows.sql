-- purpose: the probes of one target, as they were written
-- parameters: target
-- grain: request
SELECT ts, model, ok, http_status, cost FROM probe WHERE target = $target ORDER BY ts, model
