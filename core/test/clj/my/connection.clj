(ns my.connection
  "The worker of the pools of the examples in docstrings.")

(defn init [url] [:ok url])
(defn handle-call [_request _from url] [:reply url url])
