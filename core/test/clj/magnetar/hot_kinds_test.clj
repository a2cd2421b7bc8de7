(ns magnetar.hot-kinds-test
  "Upgrades of state machines and event managers."
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.gen-event :as ge]
   [magnetar.gen-statem :as gsm]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code]
   [magnetar.otp.lanes :as lanes]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

(use-fixtures :each lanes/leaving-nobody)

(defn- error-of [f]
  (try (f) nil (catch Exception e e)))

(defn- door
  "The source of a door: in version 2 its states have other names and its data another shape."
  [ns version]
  [(list 'ns ns {:version version})
   '(def callback-mode :state-functions)
   (list 'defn 'init '[n] [:ok (if (= 1 version) :off :closed) (if (= 1 version) 'n {:n 'n})])
   (list 'defn (if (= 1 version) 'off 'closed) '[type content data]
         (list 'if '(and (vector? type) (= :call (first type)))
               [:keep-state-and-data [[:reply '(second type) [version 'data]]]]
               :keep-state-and-data))
   '(defn code-change [old state data extra]
      (when (= :wrong extra) (throw (ex-info "wrong" {})))
      [:ok :closed {:n data :was [old state]}])])

(deftest a-state-machine-is-upgraded-and-taken-back
  (doseq [hosting [:threaded :activated]]
    (let [ns (code/new-name "door")
          _ (apply code/load-forms ns (door ns 1))
          [_ pid] (gsm/start ns 5 {:hosting hosting})
          path (apply code/write (code/folder) ns (door ns 2))]
      (is (= [1 5] (gsm/call pid :get)))
      (is (= {ns 1} (actor/process-info pid :code) (:code (sys/get-status pid))))
      (is (re-find #"rolled back" (ex-message (error-of #(hot/upgrade pid path {:extra :wrong})))))
      (is (= [1 5] (gsm/call pid :get)))
      (is (= [[1 2]] (map (juxt :from :to) (:processes (hot/upgrade pid path)))))
      (is (= [2 {:n 5 :was [1 :off]}] (gsm/call pid :get)))
      (is (= {ns 2} (actor/process-info pid :code)))
      (gsm/stop pid))))

(defn- handler [ns version]
  [(list 'ns ns {:version version})
   '(defn init [n] [:ok n])
   '(defn handle-event [_ s] [:ok s])
   (list 'defn 'handle-call '[_ s] [:ok [version 's] 's])
   '(defn code-change [old s extra]
      (when (= :wrong extra) (throw (ex-info "wrong" {})))
      [:ok [old s]])])

(deftest of-the-handlers-of-events-those-that-were-loaded-are-changed
  (let [[a b] (map code/new-name ["a" "b"])
        _ (run! #(apply code/load-forms % (handler % 1)) [a b])
        [_ pid] (ge/start)
        path (apply code/write (code/folder) a (handler a 2))
        both #(mapv (fn [ns] (ge/call pid ns :get)) [a b])]
    (is (= [:ok :ok] (mapv #(ge/add-handler pid % 5) [a b])))
    (is (= {a 1 b 1} (actor/process-info pid :code)))
    (is (re-find #"rolled back" (ex-message (error-of #(hot/upgrade pid path {:extra :wrong})))))
    (is (= [[1 5] [1 5]] (both)))
    (hot/upgrade pid path)
    (is (= [[2 [1 5]] [1 5]] (both)))
    (is (= {a 2 b 1} (actor/process-info pid :code)))
    (ge/stop pid)))
