(ns magnetar.dev.guide
  "Runs the examples of a page of the guide."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [is]]))

(set! *warn-on-reflection* true)

(defn steps
  "The steps in some code: [code expected] for each arrow, in order; expected is nil for code that is only run."
  [text]
  (for [part (str/split (str text "\n") #"(?<=;=>[^\n]{1,500})\n")
        :let [[code expected] (str/split part #";=> ?")]
        :when (not (str/blank? code))]
    [(str/trim code) expected]))

(defn examples
  "The examples in a text, as of `steps`."
  [text]
  (mapcat (comp steps second) (re-seq #"(?s)```clojure\n(.*?)```" text)))

(defn forms
  "Reads the forms of some code, in the current namespace."
  [code]
  (read-string (str "[" code "\n]")))

(defn- check [[code expected]]
  (let [value (last (mapv eval (forms code)))]
    (when expected
      (is (= (read-string expected) value) code))))

(defn run-page
  "Runs the examples of a page, one after the other, in a namespace of their own, within a call of `around`; returns how many have a result."
  ([page] (run-page page #(%)))
  ([page around]
   (let [examples (examples (slurp (io/file (System/getProperty "magnetar.home") page)))
         scratch (create-ns (gensym "magnetar.guide-test.page"))]
     (binding [*ns* scratch]
       (refer-clojure)
       (around #(run! check examples)))
     (remove-ns (ns-name scratch))
     (count (keep second examples)))))
