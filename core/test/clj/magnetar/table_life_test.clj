(ns magnetar.table-life-test
  "Whose tables are: owners, heirs, access, names, and the death of owners."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.support :as support]
   [magnetar.table :as table])
  (:import
   (clojure.lang IExceptionInfo)
   (java.lang.ref WeakReference)))

(set! *warn-on-reflection* true)

(use-fixtures :each (fn [test] (actor/with-process {:trap-exit true} (test))))

(defn- refused [f]
  (try
    [:done (f)]
    (catch RuntimeException e
      [(:magnetar/reason (.getData ^IExceptionInfo e)) (ex-message e)])))

(defn- owner
  "A process that makes a table and does what it is told; [pid table]."
  [options]
  (let [me (self)
        pid (spawn (fn []
                     (let [t (table/create :set options)]
                       (table/insert t [:k 1])
                       (! me [::made t])
                       (loop []
                         (receive
                           [:do f] (do (! me [::did (refused #(f t))]) (recur))
                           [:end why] (actor/exit why)
                           :stop nil)))))]
    [pid (receive [::made t] t)]))

(defn- told [pid f]
  (! pid [:do f])
  (receive [::did outcome] outcome))

(defn- end [pid why]
  (if (= :kill why) (actor/exit pid :kill) (! pid [:end why]))
  (try (actor/join pid) (catch Exception _ nil)))

(deftest ^{:spec ["C126"]} a-table-is-gone-when-its-owner-is-however-it-ends
  (doseq [why [:normal :boom :kill]]
    (let [[pid t] (owner {:name ::mine})]
      (is (= [[:k 1]] (table/lookup ::mine :k)))
      (end pid why)
      (let [[reason message] (refused #(table/lookup t :k))]
        (is (= :magnetar/table-gone reason))
        (is (str/includes? message "its owner has died")))
      (is (= :magnetar/no-such-table (first (refused #(table/lookup ::mine :k)))))
      (is (nil? (table/whereis ::mine)))
      (is (nil? (table/info t))))))

(deftest ^{:spec ["C126"]} whoever-learns-of-the-death-finds-the-table-gone
  (dotimes [_ 200]
    (let [[pid ref] (actor/spawn-monitor #(do (table/create :set {:name ::brief}) nil))]
      (receive [:DOWN ref _ pid _] (is (nil? (table/whereis ::brief)))))))

(deftest ^{:spec ["C126"]} access-is-what-it-says
  (are [access reads writes] (= [reads writes]
                                (let [[pid t] (owner {:access access})
                                      outcome [(first (refused #(table/lookup t :k))) (first (refused #(table/insert t [:l 1])))]]
                                  (end pid :kill)
                                  outcome))
    :public :done :done
    :protected :done :magnetar/no-access
    :private :magnetar/no-access :magnetar/no-access))

(deftest ^{:spec ["C126"]} every-write-to-a-protected-table-is-refused-with-culprit-and-remedy
  (let [[pid t] (owner {})]
    (doseq [f [#(table/insert t [:l 1]) #(table/insert-new t [:l 1]) #(table/insert-all t [[:l 1]]) #(table/insert-all-new t [[:l 1]])
               #(table/update-counter t :k 1) #(table/update-element t :k {1 1}) #(table/compare-and-swap t [:k 1] [:k 2])
               #(table/delete t :k) #(table/delete-object t [:k 1]) #(table/delete-all t) #(table/take t :k)
               #(table/select-delete t (table/query [_ _] true)) #(table/drop t) #(table/rename t ::other)]]
      (is (= :magnetar/no-access (first (refused f)))))
    (let [[_ message] (refused #(table/insert t [:l 1]))]
      (run! #(is (str/includes? message (str %))) ["`insert` on" t pid "protected" "{:access :public}" (self)]))
    (doseq [f [#(table/give-away t (self) nil) #(table/set-heir t (self) nil)]]
      (is (= :magnetar/not-owner (first (refused f)))))
    (is (= [[:k 1]] (table/lookup t :k)))
    (end pid :kill)))

(deftest ^{:spec ["C129"]} a-refusal-names-the-operation-that-was-called
  (let [[pid t] (owner {:access :private})]
    (doseq [[named f] {"`lookup` on" #(table/lookup t :k), "`lookup-element` on" #(table/lookup-element t :k 1), "`member?` on" #(table/member? t :k)}]
      (is (str/starts-with? (second (refused f)) named)))
    (end pid :kill)))

(deftest ^{:spec ["C126"]} a-fork-of-the-owner-is-not-the-owner
  (let [t (table/create :set)]
    (scope/with-scope [s {}]
      (let [[reason message] @(scope/fork s #(refused (fn [] (table/insert t [:k 1]))))]
        (is (= :magnetar/no-access reason))
        (is (str/includes? message "forks and futures of the owner are not the owner"))))))

(deftest a-table-is-made-by-a-process-only
  (let [outcome (second (support/start-thread :platform #(refused (fn [] (table/create :set)))))]
    (is (= :magnetar/no-process (first (support/value-of outcome))))))

(deftest ^{:spec ["C126"]} the-heir-gets-the-table-and-is-told
  (doseq [why [:normal :boom :kill]]
    (let [[pid t] (owner {:heir [(self) :data] :name ::left})]
      (end pid why)
      (is (= [t pid :data] (receive [:ETS-TRANSFER table from data] [table from data] (after 5000 :nothing))))
      (is (= (self) (:owner (table/info t))))
      (table/insert ::left [:l 2])
      (is (= 2 (:size (table/info t))))
      (table/drop t))))

(deftest ^{:spec ["C126"]} a-dead-heir-inherits-nothing-nor-does-one-of-itself
  (let [dead (spawn (fn []))]
    (actor/join dead)
    (let [[pid t] (owner {:heir [dead nil]})]
      (end pid :kill)
      (is (nil? (table/info t)))))
  (let [[pid t] (owner {})]
    (told pid #(table/set-heir % (self) :mine))
    (end pid :kill)
    (is (nil? (table/info t)))))

(deftest ^{:spec ["C126"]} a-table-that-was-given-away-belongs-to-the-other-and-keeps-its-heir
  (let [[a t] (owner {:heir [(self) :last-will]})
        me (self)
        b (spawn (fn []
                   (receive [:ETS-TRANSFER table from data]
                            (! me [::got table from data (table/insert table [:by :b])]))
                   (receive :stop nil)))]
    (is (= [:done true] (told a #(table/give-away % b :gift))))
    (is (= [t a :gift true] (receive [::got & got] got)))
    (is (= :magnetar/no-access (first (told a #(table/insert % [:by :a])))))
    (end a :kill)
    (is (= b (:owner (table/info t))))
    (end b :kill)
    (is (= [t b :last-will] (receive [:ETS-TRANSFER table from data] [table from data] (after 5000 :nothing))))
    (is (= me (:owner (table/info t))))))

(deftest a-table-is-not-given-to-the-dead-nor-to-its-owner-nor-to-what-is-no-pid
  (let [t (table/create :set)
        dead (spawn (fn []))]
    (actor/join dead)
    (are [reason to] (= reason (first (refused #(table/give-away t to nil))))
      :magnetar/noproc dead
      :magnetar/own-table (self)
      :magnetar/not-a-pid :worker)
    (is (= (self) (:owner (table/info t))))))

(deftest ^{:spec ["C126"]} a-table-is-given-away-while-others-rename-it
  (let [t (table/create :set {:name ::renamed :access :public})
        me (self)
        renaming (spawn (fn [] (loop [names (cycle [::renamed-1 ::renamed-2])]
                                 (table/rename t (first names))
                                 (recur (rest names)))))]
    (is (every? #{:back}
                (repeatedly 1000
                  (fn []
                    (let [other (spawn (fn [] (receive [:ETS-TRANSFER t _ _] (table/give-away t me :back))))]
                      (table/give-away t other :gift)
                      (receive [:ETS-TRANSFER t _ data] data (after 20000 :late)))))))
    (end renaming :kill)))

(deftest ^{:spec ["C126"]} names-are-taken-once-given-back-and-changed
  (let [t (table/create :set {:name ::a})]
    (is (= :magnetar/name-taken (first (refused #(table/create :set {:name ::a})))))
    (is (= ::b (table/rename ::a ::b)))
    (is (= [nil t] [(table/whereis ::a) (table/whereis ::b)]))
    (table/create :set {:name ::a})
    (is (= :magnetar/name-taken (first (refused #(table/rename t ::a)))))
    (is (= t (table/whereis ::b)))
    (run! table/drop [::a ::b])
    (is (= [nil nil] (map table/whereis [::a ::b])))
    (is (= :magnetar/table-gone (first (refused #(table/rename t ::c)))))
    (is (nil? (table/whereis ::c)))))

(deftest ^{:spec ["C126"]} tables-can-be-seen-by-their-owners
  (let [[pid t] (owner {:name ::seen :access :private})
        mine (table/create :bag)]
    (is (= [mine t] (filter #{t mine} (map :table (inspect/tables)))) "in the order of the owners")
    (is (= {:table t :name ::seen :kind :set :key 0 :access :private :owner pid :heir nil :size 1} (table/info t)))
    (end pid :kill)
    (is (not-any? #{t} (map :table (inspect/tables))))))

(defn- table-of-the-dead
  "[table reference]: a table whose owner has died, and a weak reference to what was in a row of it."
  []
  (let [content (Object.)
        reference (WeakReference. content)]
    [(actor/join (spawn #(doto (table/create :set) (table/insert [:k content])))) reference]))

(deftest what-was-in-a-table-that-is-gone-can-be-collected
  (let [[t reference] (table-of-the-dead)]
    (is (support/collected? reference))
    (is (nil? (table/info t)))))

(deftest ^{:spec ["C122"]} who-is-told-to-exit-stops-writing
  (let [t (table/create :set {:access :public})
        pid (spawn #(loop [i 0] (table/insert t [:n i]) (recur (inc i))))]
    (is (support/eventually (table/member? t :n)))
    (actor/exit pid :boom)
    (is (= :boom (try (actor/join pid {:timeout 20000 :else :late}) (catch Exception e (:reason (ex-data e))))))))
