-- purpose: a message did not get through
-- parameters: channel, state (ok, retrying, failed), last_error, now, next_send_at
UPDATE channel SET state = $state, last_error = $last_error, last_error_at = $now, failures = failures + 1,
                   next_send_at = $next_send_at
WHERE channel = $channel
