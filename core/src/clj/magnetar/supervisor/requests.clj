(ns magnetar.supervisor.requests
  "Requests to a supervisor. They have no timeout, since the start of a child may take any time."
  {:no-doc true}
  (:require
   [magnetar.impl.otp.erlang :as otp-erlang]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.supervisor.erlang :as erlang]))

(set! *warn-on-reflection* true)

(defn ask
  "The supervisor's answer to the request, a vector of a word and at most one argument."
  [supervisor [word & args :as request]]
  (let [called (into [(symbol "magnetar.supervisor" (name word)) supervisor] args)
        server (request/found "call" supervisor)
        call #(request/call-found called server % :infinity nil)]
    (if (otp-erlang/there? server)
      (erlang/answered request (call (erlang/asked called request)))
      (call request))))

(defn terminate-child
  "Stops a child; see `magnetar.supervisor/terminate-child`."
  [supervisor x]
  (ask supervisor [:terminate-child x]))

(defn restart-child
  "Starts a child that does not run; see `magnetar.supervisor/restart-child`."
  [supervisor id]
  (ask supervisor [:restart-child id]))

(defn delete-child
  "Forgets a child that does not run; see `magnetar.supervisor/delete-child`."
  [supervisor id]
  (ask supervisor [:delete-child id]))

(defn which-children
  "The children; see `magnetar.supervisor/which-children`."
  [supervisor]
  (ask supervisor [:which-children]))
