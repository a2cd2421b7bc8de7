(ns my.counter
  "The server of the examples in docstrings."
  {:version 2})

(defn init [n] [:ok n])
(defn handle-call [_request _from n] [:reply n n])
(defn handle-cast [k n] [:noreply (+ n k)])
(defn handle-info [_message n] [:noreply n])
