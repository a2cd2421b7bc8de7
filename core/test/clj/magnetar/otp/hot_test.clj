(ns magnetar.otp.hot-test
  "Scenarios of code that is replaced while it runs."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.hot-support :as code]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers]))

(set! *warn-on-reflection* true)

(defn- load-version
  "Loads version n of a namespace with a process and a function in it."
  [n]
  (code/load-forms 'magnetar.hot-test.scenario
                   '(ns magnetar.hot-test.scenario (:require [magnetar.actor :as actor :refer [! receive]]))
                   (list 'defn 'serve []
                         (list 'let ['answer (list 'fn [] [:s n])]
                               '(loop []
                                  (receive
                                    [:ask from] (do (! from (answer)) (recur))
                                    :move (actor/continue #'serve)))))
                   (list 'defn 'make [] (list 'fn [] n))))

(defn- serving [n]
  (load-version n)
  (spawn (ns-resolve 'magnetar.hot-test.scenario 'serve)))

(defn- asked [pid]
  (! pid [:ask (self)])
  (servers/tells))

(scenario HOT-01 "a local call stays in the version, a qualified one takes the new"
  :expect [[:s 1] [:s 1] [:s 2]]
  :ours (let [pid (serving 1)
              before (asked pid)]
          (load-version 2)
          (let [local (asked pid)]
            (! pid :move)
            [before local (asked pid)]))
  :erl "version(1), P = spawn(hot, serve, []), A = asked(P), version(2), B = asked(P), P ! move, {A, B, asked(P)}")

(scenario HOT-03 "what becomes of a process in the oldest version when the third is loaded"
  :expect [:alive [:s 1]]
  :erl-expect :killed
  :differs "Nobody is killed: a function is an object, which lives as long as somebody holds it."
  :ours (let [pid (serving 1)]
          (asked pid)
          (load-version 2)
          (load-version 3)
          [(if (actor/alive? pid) :alive :dead) (asked pid)])
  :erl "version(1), {P, R} = spawn_monitor(hot, serve, []), version(2), version(3),
    receive {'DOWN', R, process, P, Why} -> Why after 1000 -> alive end")

(scenario HOT-05 "a function of the old version is the old one, a qualified call takes the new"
  :expect [1 2]
  :ours (let [_ (load-version 1)
              old (code/call 'magnetar.hot-test.scenario 'make)]
          (load-version 2)
          [(old) ((code/call 'magnetar.hot-test.scenario 'make))])
  :erl "version(1), Old = hot:make(), version(2), {Old(), (hot:make())()}")
