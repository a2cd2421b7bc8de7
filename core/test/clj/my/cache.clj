(ns my.cache
  "A server of the examples in docstrings.")

(defn init [_] [:ok {}])
(defn handle-call [k _from rows] [:reply (rows k) rows])
