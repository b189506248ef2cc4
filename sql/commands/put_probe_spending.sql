-- purpose: book what the probes of a target have cost on a day; an earlier day's figure is of no more use
-- parameters: target, currency, day (UTC), spent
INSERT INTO probe_spending (target, currency, day, spent)
VALUES ($target, $currency, $day, $spent)
ON CONFLICT (target, currency) DO UPDATE SET day = excluded.day, spent = excluded.spent
