(ns my.better-tally
  "A handler of the examples in docstrings.")

(defn init [x] [:ok (if (number? x) x 0)])
(defn handle-event [_event n] [:ok (inc n)])
(defn handle-call [_request n] [:ok n n])
