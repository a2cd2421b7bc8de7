(ns magnetar.dev.layers-test
  "The report of layers on small trees with known layers and planted circles."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.layers :as layers]
   [magnetar.dev.layers.graph :as graph]
   [magnetar.dev.layers.product :as product]
   [magnetar.dev.lint.sources :as sources]
   [magnetar.dev.processes :refer [temporary-folder write]]))

(defmacro ^:private planted
  "Runs `body` with a checkout that holds `files`, a map of paths to texts."
  [files & body]
  `(let [folder# (.getCanonicalFile (temporary-folder))]
     (doseq [[path# text#] ~files] (write folder# path# text#))
     (binding [sources/*root* (str folder#)]
       ~@body)))

(defn- java [package class & code]
  {(str "kernel/src/java/" (str/replace package "." "/") "/" class ".java")
   (str "package " package ";\n" (str/join "\n" code))})

(def ^:private shop
  "Four layers: the package base, the package top, the namespaces that import it, and one that requires them."
  (merge (java "shop.base" "Clock" "class Clock {}")
         (java "shop.top" "Shelf" "import shop.base.Clock;" "class Shelf { Clock clock; }")
         {"core/src/clj/shop/order.clj" "(ns shop.order (:import (shop.top Shelf)))"
          "core/src/clj/shop/session.clj" "(ns shop.session (:require [clojure.string :as str]) (:import [shop.top.Shelf]))"
          "test-kit/src/clj/shop/front.clj" "(ns shop.front (:require [shop.order :as order] shop.session))"}))

(deftest a-node-stands-one-above-the-highest-that-it-depends-on
  (planted shop
    (is (= {"shop.base" 1, "shop.top" 2, "shop.order" 3, "shop.session" 3, "shop.front" 4}
           (graph/layers (product/everything))))))

(deftest a-longest-chain-goes-from-the-top-to-the-bottom
  (planted shop
    (is (= [#{"shop.front"} #{"shop.order"} #{"shop.top"} #{"shop.base"}]
           (graph/longest-chain (product/everything))))))

(deftest a-tree-without-circles-has-none
  (planted shop
    (is (= [[] [] []] (map graph/circles [(product/namespaces) (product/packages) (product/classes)])))))

(deftest the-report-names-all-of-it
  (planted shop
    (is (= ["4 layers, 5 namespaces and packages" ""
            "   4  shop.front" "   3  shop.order shop.session" "   2  shop.top" "   1  shop.base" ""
            "a longest chain, 4 long, from the top" "      shop.front" "      shop.order" "      shop.top" "      shop.base" ""
            "circles among namespaces: 0" "circles among packages: 0" "circles among classes of the kernel: 0"]
           (layers/report)))))

(deftest the-class-of-a-deftype-belongs-to-its-namespace
  (planted {"core/src/clj/shop/my_order.clj" "(ns shop.my-order)"
            "core/src/clj/shop/front.clj" "(ns shop.front (:import (shop.my_order Order)))"}
    (is (= {"shop.my-order" 1, "shop.front" 2} (graph/layers (product/everything))))))

(deftest a-circle-of-namespaces-is-found-and-shares-a-layer
  (planted {"core/src/clj/shop/base.clj" "(ns shop.base)"
            "core/src/clj/shop/order.clj" "(ns shop.order (:require shop.session shop.base))"
            "core/src/clj/shop/session.clj" "(ns shop.session (:require shop.order))"
            "core/src/clj/shop/front.clj" "(ns shop.front (:require shop.session))"}
    (is (= [#{"shop.order" "shop.session"}] (graph/circles (product/namespaces))))
    (is (= {"shop.base" 1, "shop.order" 2, "shop.session" 2, "shop.front" 3} (graph/layers (product/namespaces))))
    (is (= [#{"shop.front"} #{"shop.order" "shop.session"} #{"shop.base"}] (graph/longest-chain (product/namespaces))))))

(deftest a-circle-of-packages-is-found-through-an-import-and-a-full-name
  (planted (merge (java "shop.a" "Order" "import shop.b.Session;" "class Order {}")
                  (java "shop.b" "Session" "class Session { shop.a.Order order; }")
                  (java "shop.c" "Front" "import static shop.a.Order.total;" "class Front {}"))
    (is (= [#{"shop.a" "shop.b"}] (graph/circles (product/packages))))
    (is (= {"shop.a" 1, "shop.b" 1, "shop.c" 2} (graph/layers (product/packages))))))

(deftest a-circle-of-classes-is-found-by-simple-names
  (planted (merge (java "shop.a" "Order" "class Order { Item item; }")
                  (java "shop.a" "Item" "class Item { Price price; }")
                  (java "shop.a" "Price" "class Price { Object of(Order order) { return order; } }")
                  (java "shop.a" "Front" "class Front { Order order; }"))
    (is (= [#{"shop.a.Order" "shop.a.Item" "shop.a.Price"}] (graph/circles (product/classes))))))

(deftest a-class-named-in-a-comment-a-text-or-an-import-alone-is-not-used
  (planted (merge (java "shop.a" "Order" "class Order { Item item; char quote = '\"'; }")
                  (java "shop.a" "Item" "// Order" "/** An {@link Order}. */" "class Item { String text = \"an // Order\"; }")
                  (java "shop.b" "Item" "import shop.a.Order;" "class Item {}")
                  (java "shop.b" "Order" "class Order { Item item; }"))
    (is (= {"shop.a.Order" #{"shop.a.Item"}, "shop.b.Order" #{"shop.b.Item"}}
           (into {} (for [[class used] (product/classes)
                          :let [others (disj used class)]
                          :when (seq others)]
                      [class others]))))))

(deftest this-checkout-has-no-circles-of-namespaces-or-packages
  (is (= [] (graph/circles (product/namespaces))))
  (is (= [] (graph/circles (product/packages)))))
