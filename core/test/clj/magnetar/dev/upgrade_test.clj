(ns magnetar.dev.upgrade-test
  "The upgrade check finds uses of what has changed, and its list of changes is complete."
  {:slow true}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.set :as set]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.dev.processes :refer [home magnetar temporary-folder write]]
   [magnetar.dev.upgrade :as upgrade]
   [magnetar.dev.upgrade.uses :as uses]))

(set! *warn-on-reflection* true)

(def ^:private changes
  [{:old 'lib.core/go :new "new-go"}
   {:old 'lib.core/take :new "else" :where #{:limit}}
   {:old 'lib.core/fs :new "star" :where #{:as-value}}
   {:old 'lib.core/pmap :new "last" :where #{:map-first :third-argument}}
   {:old 'lib.core/yield :new "else" :where #{:no-else}}
   {:old 'lib.core/call :new "infinity" :where #{:nil-timeout}}
   {:old 'lib.core/wait :new "infinity" :where #{:nil-timeout}}
   {:old 'lib.core/wait :new "else" :where #{:limit}}
   {:old 'lib.core/poll :new "infinity" :where #{:nil-timeout}}
   {:old 'lib.core/poll :new "else" :where #{:no-else}}
   {:old 'lib.core/with :new "infinity" :where #{:nil-timeout-bound}}
   {:old :lib/late :kind :keyword :new "timeout"}
   {:old 'lib.gone :new "lib.there"}])

(defn- lines [& text]
  (map :line (uses/of-text (str/join "\n" text) changes)))

(deftest a-use-is-found-however-the-namespace-is-required
  (are [ns-form use] (= [2] (lines ns-form use))
    "(ns a (:require [lib.core :as l]))" "(l/go 1)"
    "(ns a (:require [lib.core :refer [go]]))" "(go 1)"
    "(ns a (:require [lib.core :refer :all]))" "(go 1)"
    "(ns a (:use lib.core))" "(go 1)"
    "(ns a (:require [lib.core :refer [go] :rename {go start}]))" "(start 1)"
    "(ns a (:require (lib [core :as l])))" "(l/go 1)"
    "(require '[lib.core :as l])" "(l/go 1)"
    "(ns a (:require [lib.core :as-alias l]))" "(defmacro m [] `(l/go 1))"
    "(ns a (:require [lib.core]))" "#?(:clj (lib.core/go 1) :cljs 2)"
    "(ns a (:require [lib.core :as l]))" "{:a [#tagged #{(l/go 1)}]}"))

(deftest maps-with-an-alias-are-read-and-leave-no-namespace-behind
  (is (= [3] (lines "(ns a (:require [lib.core :as l] [lib.not-loaded :as other]))"
                    "(def settings [#::l{:a 1} #::other{:b 2} #::unknown{:c 3} #::{:d 4}])"
                    "(l/go 1)")))
  (is (not-any? find-ns '[lib.core lib.not-loaded unknown])))

(deftest a-keyword-is-found-in-the-line-where-it-stands
  (are [found text] (= found (lines "" "" text))
    [4 5] "(case (reason e)\n  :lib/late 1\n  #{:lib/late} 2)"
    [3] "#:lib{:late 1}"
    [] ":lib/later ::late \":lib/late\" ; :lib/late"))

(deftest a-time-out-of-nil-is-told-first
  (are [found text] (= found (map :message (uses/of-text (str "(ns a (:require [lib.core :as l]))" text) changes)))
    ["lib.core/wait: infinity"] "(l/wait c {:timeout nil})"
    ["lib.core/wait: else"] "(l/wait c {:timeout 5})"
    ["lib.core/with: infinity"] "(l/with [x pool {:timeout nil}] x)"
    [] "(l/with [x pool] (other {:timeout nil}))"
    ["lib.core/poll: infinity" "lib.core/poll: else"] "(l/poll c {:timeout nil})"))

(deftest another-name-is-no-use
  (are [text] (empty? (lines "(ns a (:require [lib.core :as l] [other :refer [go]]))" text))
    "(go 1)"
    "(l/stop 1)"
    "(defn f [{:keys [go]}] ::l/go :lib.core/go \"(l/go)\" #_(l/go))"
    "(x/go 1)"))

(deftest a-use-counts-only-where-its-condition-holds
  (are [found text] (= found (lines "(ns a (:require [lib.core :as l]))" text))
    [2] "(l/take c {:timeout 1})"
    [] "(l/take c {:timeout 1 :else nil})"
    [] "(l/take c)"
    [2] "(l/take c {:deadline at})"
    [2] "(l/yield t)"
    [] "(l/yield t {:else nil})"
    [2] "(l/call s :x {:timeout nil})"
    [] "(l/call s :x {:timeout 5})"
    [] "(l/call s :x)"
    [] "(l/fs 1)"
    [2] "(map l/fs xs)"
    [2] "(l/pmap {:n 1} f xs)"
    [2] "(l/pmap f xs ys)"
    [] "(l/pmap f xs)"))

(deftest a-namespace-that-is-gone-is-found-where-it-is-required
  (is (= [1] (lines "(ns a (:require [lib.gone :as g]))" "(g/x)"))))

(deftest what-cannot-be-read-is-told
  (are [line text] (= line (last (lines "(ns a (:require [lib.core :as l]))" "(l/go)" text)))
    3 "#=(+ 1 2)"
    3 ")"
    3 "(l/go \"")
  (is (= [2 3] (lines "(ns a (:require [lib.core :as l]))" "(l/go)" ")")) "what stands before is checked"))

(defn- names-of [api]
  (set (for [[space vars] api, [short-name] vars]
         (symbol (str space) (str short-name)))))

(deftest each-name-of-the-last-release-is-there-or-its-successor-is-told
  (let [before (names-of (edn/read-string (slurp (io/resource "magnetar/dev/upgrade/api-0.1.edn"))))
        now (names-of (edn/read-string (slurp (io/file home "api.edn"))))
        told (set (map :old @upgrade/changes))]
    (is (empty? (remove requiring-resolve (set/difference before now told))) "what is left out of the API may be callable still")
    (is (< 400 (count before)))
    (is (every? uses/known? @upgrade/changes))
    (testing "only what there was can have changed"
      (is (empty? (remove #(or (before %) (keyword? %) (nil? (namespace %))) told))))))

(deftest the-page-explains-each-change
  (let [page (slurp (io/file home "docs/guide/upgrading.md"))]
    (is (empty? (remove #(str/includes? page (str "`" (str/replace (str %) #"^magnetar\." "") "`")) (map :old @upgrade/changes))))))

(deftest the-page-quotes-what-clojure-says-of-two-changes
  (let [page (slurp (io/file home "docs/guide/upgrading.md"))]
    (is (str/includes? page "Can't take value of a macro"))
    (is (str/includes? page "Could not locate magnetar/async/lab__init.class"))))

(def ^:private places-with-coordinates
  ["pom.xml" "kernel/pom.xml" "core/pom.xml" "test-kit/pom.xml" "cluster/pom.xml" "erlang/pom.xml" "etf/pom.xml" "http/pom.xml" "compat/core-async/pom.xml" "test/sample-projects/maven/pom.xml"
   "README.md" "docs/guide/core-async-compat.md"])

(deftest coordinates-have-the-version-that-the-changes-are-about
  (let [[_ version] (re-find #"(?m)^## (\d+\.\d+\.\d+), in progress$" (slurp (io/file home "CHANGELOG.md")))]
    (doseq [place places-with-coordinates]
      (testing place
        (is (= #{(str version "-SNAPSHOT")} (set (re-seq #"\d+\.\d+\.\d+-SNAPSHOT" (slurp (io/file home place))))))))))

(deftest the-command-lists-the-places-and-refuses-what-is-no-folder
  (let [folder (temporary-folder)]
    (write folder "src/app.clj" "(ns app (:require [magnetar.channel :as channel]))\n\n(channel/take 1 {:timeout 1})\n")
    (let [{:keys [exit out]} (magnetar "upgrade-check" (str folder))]
      (is (= 1 exit))
      (is (str/starts-with? out "src/app.clj:3: magnetar.channel/take: ")))
    (is (= [2 "magnetar: upgrade-check takes one folder, as in `bin/magnetar upgrade-check src`."]
           ((juxt :exit :err) (magnetar "upgrade-check"))))))
