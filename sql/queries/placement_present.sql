-- purpose: the placements that are still going on
-- parameters: since
-- grain: engine target + GPU or MIG instance + way of knowing
SELECT DISTINCT target, gpu_uuid, mig_instance, source FROM engine_gpu WHERE last_seen >= $since
