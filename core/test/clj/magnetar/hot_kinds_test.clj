(ns magnetar.hot-kinds-test
  "Upgrades of state machines and event managers."
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.gen-event :as ge]
   [magnetar.gen-statem :as gsm]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

(use-fixtures :each scenarios/leaving-nobody)

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

(def ^:private of-functions
  {:name :mapped
   :init (fn [n] [:ok n])
   :handle-event (fn [_ s] [:ok s])
   :handle-call (fn [_ s] [:ok s s])
   :code-change (fn [_ s _] [:ok [:changed s]])})

(deftest a-handler-that-is-a-map-of-functions-is-left-alone
  (let [[a b] (map code/new-name ["a" "b"])
        _ (run! #(apply code/load-forms % (handler % 1)) [a b])
        [_ pid] (ge/start)]
    (ge/add-handler pid of-functions 7)
    (ge/add-handler pid a 5)
    (hot/upgrade pid (apply code/write (code/folder) a (handler a 2)))
    (is (= [2 [1 5]] (ge/call pid a :get)))
    (ge/add-handler pid b 6)
    (hot/upgrade pid (apply code/write (code/folder) b (handler b 2)))
    (is (= [[2 [1 5]] [2 [1 6]] 7] [(ge/call pid a :get) (ge/call pid b :get) (ge/call pid :mapped :get)]))
    (ge/stop pid)))

(deftest of-a-handler-the-version-is-what-its-own-state-was-made-by
  (let [ns (code/new-name "handler")
        load #(apply code/load-forms ns (handler ns %))
        [_ pid] (ge/start)]
    (load 1)
    (ge/add-handler pid [ns :old] 5)
    (load 2)
    (ge/add-handler pid [ns :new] 5)
    (hot/upgrade pid (apply code/write (code/folder) ns (handler ns 3)))
    (is (= [[3 [1 5]] [3 [2 5]]] (map #(ge/call pid [ns %] :get) [:old :new])))
    (ge/delete-handler pid [ns :old] nil)
    (is (= {ns 3} (actor/process-info pid :code)))
    (ge/delete-handler pid [ns :new] nil)
    (is (nil? (actor/process-info pid :code)))
    (is (= [] (:processes (hot/upgrade pid (apply code/write (code/folder) ns (handler ns 4))))))
    (ge/stop pid)))

(defn- module
  "The source of a state machine that goes over to another module when it is told to."
  [ns version other how]
  [(list 'ns ns {:version version})
   '(def callback-mode :handle-event-function)
   '(defn init [d] [:ok :s d])
   (list 'defn 'handle-event '[type content state data]
         (list 'cond
               '(= :other content) [:keep-state-and-data [[how (list 'quote other)]]]
               '(= :back content) [:keep-state-and-data [:pop-callback-module]]
               '(vector? type) [:keep-state-and-data [[:reply '(second type) [(list 'quote ns) version 'data]]]]))
   '(defn code-change [old state data extra] [:ok state [old data]])])

(deftest of-the-modules-of-a-state-machine-the-one-in-use-is-changed
  (doseq [hosting [:threaded :activated]]
    (let [[a b] (map code/new-name ["a" "b"])
          of-a #(module a % b :push-callback-module)
          of-b #(module b % a :change-callback-module)
          upgrade #(map (juxt :from :to) (:processes (hot/upgrade %1 (apply code/write (code/folder) %2 %3))))]
      (apply code/load-forms a (of-a 1))
      (apply code/load-forms b (of-b 1))
      (let [[_ pid] (gsm/start a 0 {:hosting hosting})]
        (gsm/cast pid :other)
        (is (= [b 1 0] (gsm/call pid :get)))
        (is (= {a 1 b 1} (actor/process-info pid :code)))
        (is (= [[{a 1 b 1} {a 1 b 2}]] (upgrade pid b (of-b 2))))
        (is (= [b 2 [1 0]] (gsm/call pid :get)))
        (gsm/cast pid :back)
        (is (= [a 1 [1 0]] (gsm/call pid :get)))
        (is (= {a 1} (actor/process-info pid :code)))
        (is (= [] (upgrade pid b (of-b 3))) "what it does not run any more is not its matter")
        (gsm/stop pid)))))
