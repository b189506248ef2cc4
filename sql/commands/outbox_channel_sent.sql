-- purpose: a message got through
-- parameters: channel, now, next_send_at
UPDATE channel SET state = 'ok', last_error = NULL, last_error_at = NULL, last_sent_at = $now, failures = 0,
                   next_send_at = $next_send_at
WHERE channel = $channel
