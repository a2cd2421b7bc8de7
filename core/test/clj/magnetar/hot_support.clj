(ns magnetar.hot-support
  "Sources that the tests of hot code write and load."
  (:require
   [clojure.string :as str]
   [magnetar.dev.processes :as processes]
   [magnetar.hot :as hot]))

(set! *warn-on-reflection* true)

(defn folder
  "A new folder."
  []
  (str (processes/temporary-folder)))

(defn- path-of [ns]
  (str (-> (str ns) (str/replace "-" "_") (str/replace "." "/")) ".clj"))

(defn write
  "Writes forms as the source of a namespace below the folder; returns the path. A string is written as it is."
  [folder ns & forms]
  (processes/write folder (path-of ns) (str/join "\n" (map #(if (string? %) % (pr-str %)) forms))))

(defn load-forms
  "Loads the forms as the source of a namespace."
  [ns & forms]
  (hot/load (apply write (folder) ns forms)))

(defn value
  "What the var of that name in the namespace is, or ::none."
  [ns name]
  (if-some [v (ns-resolve ns name)] @v ::none))

(defn call
  "Calls the function of that name in the namespace."
  [ns name & args]
  (apply (value ns name) args))

(defn new-name
  "The symbol of a namespace that is not used yet."
  [hint]
  (symbol (str "magnetar.hot-test." (gensym hint))))

(defn counter
  "The source of a counter: forms of version 1, whose state is a number, or of 2, whose state is a map."
  [ns version]
  (let [in (if (= 1 version) 'n '{:keys [n] :as s})
        out (fn [form] (if (= 1 version) form (list 'assoc 's :n form)))]
    [(list 'ns ns {:version version})
     '(defn init [n] [:ok n])
     (list 'defn 'handle-call ['request 'from in] (list 'if '(fn? request) [:reply '(request) (if (= 1 version) 'n 's)] [:reply [version 'n] (if (= 1 version) 'n 's)]))
     (list 'defn 'handle-cast ['k in] [:noreply (out '(+ n k))])
     '(defn code-change [old n extra] (when (fn? extra) (extra n)) [:ok (if (map? n) n {:n n :was old})])]))
